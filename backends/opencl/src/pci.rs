//! Where a device is on its machine's bus: what tells that Vulkan's device there is the same one.

use opencl3::device as cl;
use windlass_backend::PciAddress;

use crate::sys::DeviceId;

/// What NVIDIA calls the bus's domain; the headers do not have it, and old drivers do not know it.
const DOMAIN_NV: u32 = 0x400a;

/// By Khronos's extension or by NVIDIA's, which came long before it. Processors have no place.
pub(crate) fn address(device: DeviceId, extensions: &[&str]) -> Option<PciAddress> {
    if extensions.contains(&"cl_khr_pci_bus_info") {
        return of_khronos(&device.bytes(cl::CL_DEVICE_PCI_BUS_INFO_KHR));
    }
    if extensions.contains(&"cl_nv_device_attribute_query") {
        return of_nvidia([DOMAIN_NV, cl::CL_DEVICE_PCI_BUS_ID_NV, cl::CL_DEVICE_PCI_SLOT_ID_NV].map(
            |what| {
                let number = device.number(what)?;
                u32::try_from(number).ok()
            },
        ));
    }
    None
}

/// Four words: domain, bus, device and function.
fn of_khronos(bytes: &[u8]) -> Option<PciAddress> {
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[4 * at + byte]));
    PciAddress::new(word(0), word(1), word(2), word(3))
}

/// Domain, bus, and a slot whose last three bits are the function.
fn of_nvidia([domain, bus, slot]: [Option<u32>; 3]) -> Option<PciAddress> {
    PciAddress::new(domain.unwrap_or(0), bus?, slot? >> 3, slot? & 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_extensions_say_the_same_of_one_device() {
        let place = "0001:c1:02.3".parse().ok();
        let words = [1_u32, 0xc1, 2, 3].map(u32::to_ne_bytes);
        assert_eq!(of_khronos(words.as_flattened()), place);
        assert_eq!(of_nvidia([Some(1), Some(0xc1), Some(2 << 3 | 3)]), place);
    }

    #[test]
    fn what_a_driver_does_not_tell_is_no_place() {
        for bytes in [&[] as &[u8], &[1; 15], &[0; 16], &[255; 16]] {
            assert_eq!(of_khronos(bytes), None, "{bytes:?}");
        }
        assert_eq!(of_nvidia([None; 3]), None);
        assert_eq!(of_nvidia([Some(0), None, Some(8)]), None);
        assert_eq!(of_nvidia([Some(0), Some(1), None]), None);
        // Old drivers know no domains, and their machines have one.
        assert_eq!(of_nvidia([None, Some(1), Some(0)]), "01:00.0".parse().ok());
    }
}
