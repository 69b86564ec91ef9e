//! Kernels that are asked what they are, and built before they are needed.

#[path = "common/rig.rs"]
mod rig;

use rig::wait;
use windlass::image::ImageFormat;
use windlass::prelude::*;

#[windlass::kernels]
mod image {
    #[kernel]
    pub fn scale(#[spec] times: u32, v: &mut [u32]) {
        v[global_id(0)] *= times;
    }

    #[kernel]
    pub fn shift(by: u32, v: &mut [u32]) {
        v[global_id(0)] += by;
    }
}

#[test]
fn row_149_kernels_say_what_they_are_and_a_bundle_builds_them_when_it_is_told_to() {
    let runtime = Runtime::new();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let bundle = image::bundle();
    let names: Vec<&str> = bundle.kernels().map(|kernel| kernel.name()).collect();
    assert_eq!(names, ["scale", "shift"]);
    let scale = bundle.get("scale").expect("it is in the module");
    assert_eq!((scale.overrides()[0].parameter, scale.slots().len()), ("times", 2));
    assert!(
        scale.image_for(&[ImageFormat::Wgsl], "").is_some()
            && scale.image_for(&[ImageFormat::OpenClC], "").is_none()
    );
    assert!(bundle.get("turn").is_none());

    let builds = || runtime.stats().builds;
    let kernels = image::bundle().with("times", 3.0).unwrap();
    assert_eq!(builds(), 0, "nothing is built before it is asked for");
    wait(kernels.warm_up(&queue)).unwrap();
    assert_eq!(builds(), 2);
    let v = Buffer::from(vec![2_u32; 8]);
    let both = queue.submit(|cg| {
        cg.parallel_for(8, image::scale(3, cg.read_write(&v)))?;
        cg.parallel_for(8, image::shift(1, cg.read_write(&v)))
    });
    wait(both.unwrap()).unwrap();
    assert_eq!(wait(v.host_read()).unwrap()[..], [7; 8]);
    assert_eq!(builds(), 2, "both were there");
    assert!(image::bundle().with("tile", 1.0).is_err(), "no kernel has such a value");
}
