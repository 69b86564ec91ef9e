//! Which backends are asked for devices, what a queue may be put together from, and what is said where that is wrong.

#[path = "common/rig.rs"]
mod rig;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Rig, wait};
use windlass::prelude::*;
use windlass::{BackendError, BackendId, DeviceKind, Unavailable};
use windlass_backend::{Backend, ContextSpec, DeviceInfo, MemoryIndex, Platform, async_trait};
use windlass_host::Host;

/// A backend that counts how often its driver is looked for.
struct Probe(Arc<AtomicUsize>);

// SAFETY: it opens nothing.
#[async_trait]
unsafe impl Backend for Probe {
    fn id(&self) -> BackendId {
        BackendId::new("probe")
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(Unavailable::new("there is no such driver", "none"))
    }

    async fn open(&self, _: ContextSpec) -> Result<Arc<dyn windlass_backend::Context>, BackendError> {
        unreachable!("nothing was found")
    }
}

fn probed() -> (Runtime, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::builder().only_given_backends().backend(Host::new()).backend(Probe(asked.clone()));
    (runtime.build(), asked)
}

#[test]
fn a_selector_that_names_a_backend_loads_no_other_driver() {
    let (runtime, asked) = probed();
    let queue = Queue::builder().runtime(&runtime).select(Selector::backend("host")).blocking_build();
    assert_eq!(queue.unwrap().device().backend().as_str(), "host");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let error = Queue::builder().runtime(&runtime).select(Selector::backend("probe")).blocking_build();
    let error = error.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("no such driver"), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(Queue::builder().runtime(&runtime).blocking_build().is_ok());
}

#[test]
fn a_backend_that_is_not_there_is_named_with_what_is() {
    let (runtime, _) = probed();
    let error = Queue::builder().runtime(&runtime).select(Selector::backend("metal")).blocking_build();
    let (error, what) = error.map_err(|error| (error.clone(), error.to_string())).unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    for part in ["metal", "host", "probe"] {
        assert!(what.contains(part), "{what}");
    }
    assert!(!what.contains("Selector"), "{what}");
}

/// Runs one of the children below with a value of `WINDLASS_DEVICE`.
fn child(name: &str, device: &std::ffi::OsStr) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads=1", "--nocapture"])
        .env("WINDLASS_TEST_CHILD", "1")
        .env("WINDLASS_DEVICE", device)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("the child has tested"), "{said}\n{output:?}");
}

fn is_child() -> bool {
    std::env::var_os("WINDLASS_TEST_CHILD").is_some()
}

#[test]
fn child_with_the_host_wanted() {
    if is_child() {
        let (runtime, asked) = probed();
        assert_eq!(
            Queue::builder().runtime(&runtime).blocking_build().unwrap().device().kind(),
            DeviceKind::Host
        );
        let other = Queue::builder().runtime(&runtime).select(Selector::backend("probe")).blocking_build();
        assert_eq!(other.unwrap().device().kind(), DeviceKind::Host, "it goes before selectors");
        assert!(wait(runtime.devices()).unwrap().iter().all(|d| d.backend().as_str() == "host"));
        assert!(wait(runtime.platforms()).iter().all(|p| p.backend().as_str() == "host"));
        let backends = wait(runtime.backends());
        let probe = backends.into_iter().find(|(id, _)| id.as_str() == "probe").unwrap();
        assert!(probe.1.unwrap_err().to_string().contains("WINDLASS_DEVICE"));
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        println!("the child has tested");
    }
}

#[test]
fn child_with_nonsense_wanted() {
    if is_child() {
        let (runtime, _) = probed();
        for error in [
            Queue::builder().runtime(&runtime).blocking_build().unwrap_err(),
            wait(runtime.devices()).unwrap_err(),
        ] {
            assert!(error.is_invalid_input() && error.to_string().contains("WINDLASS_DEVICE"), "{error}");
            assert!(error.to_string().contains("UTF-8"), "{error}");
        }
        println!("the child has tested");
    }
}

#[test]
fn the_variable_loads_no_other_driver() {
    child("child_with_the_host_wanted", "host".as_ref());
    child("child_with_the_host_wanted", "host:0".as_ref());
}

#[test]
#[cfg(unix)]
fn a_variable_that_is_not_text_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    child("child_with_nonsense_wanted", std::ffi::OsStr::from_bytes(b"host\xff"));
}

#[test]
fn a_queue_is_of_one_runtime() {
    let (a, b) = (Rig::new(), Rig::new());
    let context = Context::blocking_open(std::slice::from_ref(&a.device)).unwrap();
    let name = a.device.name().to_owned();
    let mixed = [
        Queue::builder().runtime(&b.runtime).context(&context),
        Queue::builder().context(&context).device(b.device.clone()),
        Queue::builder().runtime(&b.runtime).device(a.device.clone()),
        Queue::builder().runtime(&b.runtime).context(&context).device(b.device.clone()),
    ];
    for builder in mixed {
        let error = builder.blocking_build().unwrap_err();
        assert!(error.is_invalid_input(), "{error}");
        let text = error.to_string();
        assert!(text.contains(&name) && text.contains("runtime"), "{text}");
    }
    let error = Context::blocking_open(&[a.device.clone(), b.device.clone()]).unwrap_err();
    assert!(error.is_invalid_input() && error.to_string().contains("runtime"), "{error}");
    assert_eq!(b.stats().submitted, 0);
    let good = Queue::builder().runtime(&a.runtime).context(&context).device(a.device.clone());
    assert!(good.blocking_build().is_ok());
}

/// A driver with one platform of two devices, which no context has together, and one without any.
struct Pair;

// SAFETY: it opens nothing.
#[async_trait]
unsafe impl Backend for Pair {
    fn id(&self) -> BackendId {
        BackendId::new("pair")
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        let device = |key: &'static str, kind| {
            DeviceInfo::new(key, key, kind, MemoryIndex::Own(0))
                .hardware(Some([7; 16]), None, 1)
                .extensions(["second".into(), "first".into()])
                .formats([windlass::image::ImageFormat::OpenClC])
        };
        let two = vec![device("left", DeviceKind::Other), device("right", DeviceKind::DiscreteGpu)];
        Ok(vec![Platform::new("pair", "nobody", "1", two), Platform::new("bare", "nobody", "1", Vec::new())])
    }

    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn windlass_backend::Context>, BackendError> {
        assert_eq!(spec.devices.len(), 2);
        Err(BackendError::Unsupported("two devices in one context".into()))
    }
}

fn paired() -> (Runtime, Vec<Device>) {
    let runtime = Runtime::builder().only_given_backends().backend(Host::new()).backend(Pair).build();
    let devices = wait(runtime.devices()).unwrap();
    (runtime, devices)
}

#[test]
fn row_22_devices_that_no_context_has_together_are_named() {
    let (_runtime, devices) = paired();
    let error = Context::blocking_open(&devices[1..]).unwrap_err();
    assert!(error.is_not_shareable() && error.is_unsupported() && !error.is_mixed_platforms(), "{error}");
    for part in ["left", "right", "two devices in one context"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = Context::blocking_open(&devices[..2]).unwrap_err();
    assert!(error.is_mixed_platforms() && error.is_invalid_input() && !error.is_not_shareable(), "{error}");
}

#[test]
fn row_02_a_platform_without_devices_is_listed() {
    let (runtime, devices) = paired();
    let platforms = wait(runtime.platforms());
    let bare = platforms.iter().find(|platform| platform.name() == "bare").unwrap();
    assert!(bare.devices().is_empty() && !bare.has(Aspect::Fp64) && !bare.has_extension("first"));
    assert_eq!(devices.len(), 3);
}

#[test]
fn rows_15_30_devices_say_which_hardware_and_extensions_they_are() {
    let (_runtime, devices) = paired();
    let [host, left, right] = &devices[..] else { panic!("three devices") };
    assert!(left != right && left.is_same_hardware(right) && !left.is_same_hardware(host));
    assert!(host.is_same_hardware(host));
    for device in [left, right] {
        assert!(
            device.has_extension("first") && device.has_extension("second") && !device.has_extension("fir")
        );
    }
    assert!(left.platform().has_extension("second") && !left.platform().has(Aspect::Fp64));
}

/// A backend whose devices tell so much of the hardware that they are: an identity, and a place on the bus.
struct Cards(&'static str, Vec<(Option<u8>, &'static str)>);

// SAFETY: it opens nothing.
#[async_trait]
unsafe impl Backend for Cards {
    fn id(&self) -> BackendId {
        BackendId::new(self.0)
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        let device = |(at, (id, pci)): (usize, &(Option<u8>, &str))| {
            DeviceInfo::new(at.to_string(), "card", DeviceKind::DiscreteGpu, MemoryIndex::Own(0))
                .hardware(id.map(|id| [id; 16]), None, 1)
                .pci(pci.parse().ok())
        };
        let devices = self.1.iter().enumerate().map(device).collect();
        Ok(vec![Platform::new(self.0, "nobody", "1", devices)])
    }

    async fn open(&self, _: ContextSpec) -> Result<Arc<dyn windlass_backend::Context>, BackendError> {
        Err(BackendError::Unsupported("to be opened".into()))
    }
}

/// Places count across backends, and within one only where it does not tell its devices apart itself.
#[test]
fn rows_15_105_one_card_in_two_backends_is_known_by_its_identity_or_its_place() {
    let (a, b) = ("0000:01:00.0", "0000:02:00.0");
    let left = Cards("left", vec![(Some(1), a), (Some(2), a), (None, b), (Some(3), ""), (None, "")]);
    let right = Cards("right", vec![(None, a), (Some(3), b), (Some(1), ""), (None, ""), (Some(9), a)]);
    let runtime = Runtime::builder().only_given_backends().backend(left).backend(right).build();
    let devices = wait(runtime.devices()).unwrap();
    let (left, right) = devices.split_at(5);
    let same_as = |device: &Device, others: &[Device]| -> Vec<usize> {
        let same = |(at, other): (usize, &Device)| {
            let is_same = device.is_same_hardware(other);
            assert_eq!(is_same, other.is_same_hardware(device), "both ways");
            is_same.then_some(at)
        };
        others.iter().enumerate().filter_map(same).collect()
    };
    let across: Vec<_> = left.iter().map(|device| same_as(device, right)).collect();
    // By place, though the drivers' identities differ, and by identity, though one does not tell the place.
    assert_eq!(across, [vec![0, 2, 4], vec![0, 4], vec![1], vec![1], vec![]]);
    // Two parts of one card, and what says nothing of itself, are each their own.
    let within: Vec<_> = left.iter().map(|device| same_as(device, left)).collect();
    assert_eq!(within, [[0], [1], [2], [3], [4]]);
    assert_eq!(left[0].info().pci.map(|pci| pci.to_string()).as_deref(), Some(a));
}

#[test]
fn row_26_the_default_choice_is_told_and_always_the_same() {
    let (_runtime, devices) = paired();
    let scores: Vec<_> = devices.iter().map(|device| Selector::new().score_of(device)).collect();
    assert_eq!(scores, [Some(500), Some(100), Some(1000)]);
    let host_only = windlass::image::Kernel::new("none", [], []);
    let why = Selector::new().kernel(&host_only).explain(&devices[1]);
    assert!(why.starts_with("ruled out: ") && why.contains("none"), "{why}");
    assert_eq!(
        Selector::new().kind(DeviceKind::Cpu).explain(&devices[1]),
        "ruled out: its kind is other, and not cpu"
    );
    assert_eq!(Selector::new().aspect(Aspect::Fp64).explain(&devices[1]), "ruled out: it lacks Fp64");
    assert_eq!(Selector::new().score(|_| Some(3)).explain(&devices[0]), "3, by the program's own score");
}
