//! Where devices are on their machine's bus.

use std::fmt;
use std::str::FromStr;

/// A device's place on the PCI bus of its machine: all drivers that know it tell the same one, whatever API they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// A place, if it is one: a bus has 32 devices of 8 functions. Drivers answer with zeros where they do not know, so the first device
    /// of the first bus, which is no such device anyway, is none.
    ///
    /// ```
    /// use windlass_backend::PciAddress;
    /// assert_eq!(PciAddress::new(0, 1, 0, 0).unwrap().to_string(), "0000:01:00.0");
    /// assert!(PciAddress::new(0, 1, 32, 0).is_none() && PciAddress::new(0, 0, 0, 0).is_none());
    /// ```
    pub fn new(domain: u32, bus: u32, device: u32, function: u32) -> Option<Self> {
        let is_place = device < 32 && function < 8 && (domain, bus, device) != (0, 0, 0);
        let [bus, device, function] = [bus, device, function].map(u8::try_from);
        let address = PciAddress { domain, bus: bus.ok()?, device: device.ok()?, function: function.ok()? };
        is_place.then_some(address)
    }
}

/// A text that is no place on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPciAddress;

impl fmt::Display for NoPciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no place on a PCI bus: it is written domain:bus:device.function, as in 0000:01:00.0")
    }
}

impl std::error::Error for NoPciAddress {}

/// As it is displayed; the domain may be left out.
///
/// ```
/// use windlass_backend::PciAddress;
/// assert_eq!("0000:3b:00.1".parse(), "3b:00.1".parse::<PciAddress>());
/// assert!("".parse::<PciAddress>().is_err());
/// ```
impl FromStr for PciAddress {
    type Err = NoPciAddress;

    fn from_str(text: &str) -> Result<Self, NoPciAddress> {
        let number = |digits: &str| match digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            true => u32::from_str_radix(digits, 16).ok(),
            false => None,
        };
        let parse = || {
            let (place, function) = text.split_once('.')?;
            let mut parts = place.rsplit(':');
            let (device, bus) = (parts.next()?, parts.next()?);
            let domain = parts.next().unwrap_or("0");
            let none_left = parts.next().is_none();
            let address = PciAddress::new(number(domain)?, number(bus)?, number(device)?, number(function)?)?;
            none_left.then_some(address)
        };
        parse().ok_or(NoPciAddress)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for [domain, bus, device, function] in [[0, 1, 0, 0], [0, 0, 2, 0], [0x1_0000, 255, 31, 7]] {
            let address = PciAddress::new(domain, bus, device, function).unwrap();
            assert_eq!(address.to_string().parse(), Ok(address), "{address}");
        }
        assert_eq!("0001:C1:1f.7".parse(), Ok(PciAddress::new(1, 0xc1, 31, 7).unwrap()));
    }

    /// A sign before a number among them, which Rust's own reading of numbers takes.
    #[test]
    fn what_is_no_place_is_none() {
        let texts = [
            "",
            ".",
            "01",
            "01:00",
            "1.0",
            ":.",
            "0000:00:00.0",
            "00:00.3",
            "01:20.0",
            "01:00.8",
            "100:00.0",
            "0:0000:01:00.0",
            "0000:01:00.",
            "0000:+1:00.0",
            "0000:01:-0.0",
            "xy:00.0",
            "PCI:01:00.0",
            " 01:00.0",
        ];
        for text in texts {
            assert_eq!(text.parse::<PciAddress>(), Err(NoPciAddress), "`{text}`");
        }
        for [bus, device, function] in [[0, 0, 0], [0, 0, 7], [256, 0, 0], [1, 32, 0], [1, 0, 8]] {
            assert_eq!(PciAddress::new(0, bus, device, function), None);
        }
    }
}
