//! Tests of the wgpu backend under Vulkan's validation layer, which says what drivers let pass: wrong uses of objects, and accesses
//! that no barrier orders. wgpu hides neither, since staging is made by Vulkan's own calls.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::checks::PROFILE;
use crate::process::Process;
use crate::wheels;

const LAYER: &str = "VK_LAYER_KHRONOS_validation";

/// The layer prints what it finds on the standard output, where nobody registers to be told.
const SETTINGS: &str = "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
";

/// What begins each finding.
const FINDINGS: [&str; 2] = ["Validation Error", "Validation Warning"];

/// Whether the layer is installed.
pub(crate) fn is_there() -> bool {
    Path::new("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json").exists()
}

/// `validation [all]`: the backend's own tests and the suite; all of them are the language's, too.
pub(crate) fn validation(rest: &[String]) -> Result<()> {
    let tests =
        Process::cargo().words("test --workspace --all-features --test thin --test wgpu --test mixed");
    match rest {
        [] => watched(tests.words(PROFILE)),
        [all] if all == "all" => {
            watched(tests.words("--test language").words(PROFILE).words("-- --skip oclgrind:: --skip cuda::"))
        }
        _ => Err("usage: cargo xtask validation [all]".into()),
    }
}

fn watched(tests: Process) -> Result<()> {
    let folder = wheels::drivers().join("validation");
    let write = || {
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("vk_layer_settings.txt"), SETTINGS)
    };
    write().map_err(|error| format!("{}: {error}", folder.display()))?;
    // A layer that is not installed leaves no Vulkan device, which is then missed.
    let tests = tests.env("VK_INSTANCE_LAYERS", LAYER).env("VK_LAYER_SETTINGS_PATH", &folder);
    let tests = tests.env("WINDLASS_REQUIRE_DRIVERS", "1");
    let Some((code, said)) = tests.ended() else { return Err("cargo could not be started".into()) };
    let findings: Vec<&str> =
        said.lines().filter(|line| FINDINGS.iter().any(|begin| line.contains(begin))).collect();
    if code != Some(0) {
        return Err(format!("the tests failed:\n{said}"));
    }
    if !findings.is_empty() {
        return Err(format!("{} findings:\n{}", findings.len(), findings.join("\n")));
    }
    println!("the layer found nothing");
    Ok(())
}
