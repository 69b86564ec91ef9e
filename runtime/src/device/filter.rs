//! What the environment says of devices.

use windlass_backend::BackendId;

use super::Device;
use crate::error::{Error, Kind, Result};

/// What `WINDLASS_DEVICE` asks for: a backend, and which of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFilter {
    pub(crate) backend: BackendId,
    pub(crate) index: Option<usize>,
}

impl DeviceFilter {
    /// What `WINDLASS_DEVICE` says, if it is set.
    pub(crate) fn of_environment() -> Result<Option<DeviceFilter>> {
        let Some(value) = std::env::var_os("WINDLASS_DEVICE") else { return Ok(None) };
        match value.to_str() {
            Some(text) => DeviceFilter::parse(text).map(Some),
            None => Err(Error::invalid(format!(
                "WINDLASS_DEVICE is {value:?}, which is not UTF-8; it must be a backend, or a backend and a number, as \
                 in `opencl:1`"
            ))),
        }
    }

    /// Reads `backend` or `backend:n`.
    pub(crate) fn parse(text: &str) -> Result<DeviceFilter> {
        let wrong = || {
            Error::invalid(format!(
                "WINDLASS_DEVICE is `{text}`; it must be a backend (`host`, `opencl`, `wgpu`) or a backend and the \
                 number of one of its devices, as in `opencl:1`"
            ))
        };
        let (backend, index) = match text.split_once(':') {
            Some((backend, index)) => (backend, Some(index.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        match backend.is_empty() || backend.chars().any(char::is_whitespace) {
            true => Err(wrong()),
            false => Ok(DeviceFilter { backend: backend.to_owned().into(), index }),
        }
    }

    /// The devices that it leaves.
    pub(crate) fn leave(&self, devices: Vec<Device>) -> Result<Vec<Device>> {
        let of_backend: Vec<_> = devices.into_iter().filter(|d| *d.backend() == self.backend).collect();
        let found = of_backend.len();
        let left: Vec<_> = match self.index {
            None => of_backend,
            Some(index) => of_backend.into_iter().skip(index).take(1).collect(),
        };
        match left.is_empty() {
            false => Ok(left),
            true => Err(Error::new(Kind::NoDevice(format!(
                "WINDLASS_DEVICE asks for {}{}, and that backend has {found} devices here",
                self.backend,
                self.index.map(|i| format!(":{i}")).unwrap_or_default(),
            )))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_18_device_variable() {
        let filter = |backend: &'static str, index| DeviceFilter { backend: BackendId::new(backend), index };
        assert_eq!(DeviceFilter::parse("opencl").unwrap(), filter("opencl", None));
        assert_eq!(DeviceFilter::parse("wgpu:2").unwrap(), filter("wgpu", Some(2)));
        for bad in ["", ":1", "opencl:", "opencl:x", "opencl:-1", "open cl"] {
            let error = DeviceFilter::parse(bad).unwrap_err();
            assert!(
                error.is_invalid_input() && error.to_string().contains("WINDLASS_DEVICE"),
                "{bad}: {error}"
            );
        }
    }
}
