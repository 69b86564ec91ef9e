//! The command, as its users see it.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn windlass(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).env("WINDLASS_DEVICE", "host").output().expect("it is built")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    let output = windlass(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_str(&out(&output)).expect("JSON")
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("windlass-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

#[test]
fn devices_are_listed_for_people_and_programs() {
    let listed = json(&["devices", "--json"]);
    assert_eq!(listed["devices"][0]["backend"], "host");
    // The others were not asked, and that is said.
    assert!(listed["missing"].as_array().expect("a list").iter().any(|m| m["remedy"] == "unset it"));
    assert!(out(&windlass(&["devices"])).contains("compute units"));
    let none = windlass(&["devices", "--device", "no such device"]);
    let told = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(
        none.status.code() == Some(1) && told.contains("no such device") && told.contains("host"),
        "{told}"
    );
}

#[test]
fn the_host_is_well() {
    let examined = json(&["doctor", "--json"]);
    assert_eq!(examined["well"], true);
    assert_eq!(examined["devices"][0]["checks"].as_array().expect("a list").len(), 4);
    assert!(out(&windlass(&["doctor"])).contains(": well"));
}

#[test]
fn each_measure_gives_a_figure() {
    let measured = json(&["bench", "--json"]);
    let figures = measured["devices"][0]["figures"].as_object().expect("figures");
    assert_eq!(figures.len(), 5);
    let is_there = |figure: &Value| figure.as_f64().is_some_and(|figure| figure > 0.0);
    // The host reads its own memory where it is.
    let is_moved = |name: &str| !name.starts_with("data ");
    assert!(figures.iter().all(|(name, figure)| is_there(figure) == is_moved(name)), "{figures:?}");
}

/// The host runs no WGSL, and a file without a kernel is told so.
#[test]
fn a_kernel_is_explained() {
    let folder = folder("explained");
    let file = folder.join("kernel.wgsl");
    let name = file.to_str().expect("plain characters");
    let write = |text: &str| std::fs::write(&file, text).expect("it is ours");
    write(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(64) fn one() { x[0] = 1u; }",
    );
    let explained = windlass(&["explain", name]);
    assert!(explained.status.code() == Some(1) && out(&explained).contains("cannot run it"), "{explained:?}");
    let as_json = windlass(&["explain", name, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&out(&as_json)).expect("it is JSON");
    assert!(told["runs"] == false && told["devices"][0]["problem"].is_string(), "{told}");
    let other = windlass(&["explain", name, "--entry", "two"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("no kernel `two`"));
    write("nothing of the kind");
    assert!(String::from_utf8_lossy(&windlass(&["explain", name]).stderr).contains("kernel.wgsl"));
    std::fs::remove_dir_all(folder).expect("it is ours");
}

/// A program is run and traced; so is one that fails, and one that has nothing to do with us is told apart.
#[test]
fn a_program_is_traced() {
    let folder = folder("traced");
    let page = folder.join("page.html");
    let page = page.to_str().expect("plain characters");
    let traced = windlass(&["trace", "-o", page, "--", env!("CARGO_BIN_EXE_windlass"), "doctor"]);
    let told = out(&traced);
    assert!(traced.status.success() && told.contains("scaled_sum") && told.contains("step"), "{told}");
    let html = std::fs::read_to_string(page).expect("a page");
    assert!(html.contains("\"label\":\"step\"") && html.contains("</html>"));
    let other = windlass(&["trace", "--", "true"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("no runtime of Windlass"));
    std::fs::remove_dir_all(folder).expect("it is ours");
}

/// All runtimes of all processes are in one picture: here a program that has two of them started by a shell.
#[cfg(unix)]
#[test]
fn processes_are_shown_together() {
    let program = env!("CARGO_BIN_EXE_windlass");
    let both = format!("{program} doctor && {program} doctor");
    let summed = out(&windlass(&["trace", "--json", "--", "sh", "-c", &both]));
    let table = summed.lines().last().expect("a last line");
    let table: Value = serde_json::from_str(table).expect("JSON");
    let steps = table.as_array().expect("a list").iter().find(|sum| sum["what"] == "step").expect("steps");
    assert_eq!(steps["times"], 2 * 201);
}

/// A file of a program that was stopped is read as far as it goes; what is no trace is said to be none.
#[test]
fn files_are_read_as_far_as_they_go() {
    let folder = folder("files");
    let file = folder.join("trace.json");
    let write = |text: &str| std::fs::write(&file, text).expect("it is ours");
    let name = file.to_str().expect("plain characters");
    let slice = r#"{"name":"k","ph":"X","cat":"group","ts":5,"dur":2,"pid":1,"tid":0,"args":{"id":0,"after":[],"outcome":"failed","waited_us":1}}"#;
    write(&format!("[\n{slice},\n{slice},\n{{\"name\":\"k\",\"ph"));
    let summed = json(&["trace", name, "--json"]);
    assert_eq!((&summed[0]["times"], &summed[0]["failed"]), (&Value::from(2), &Value::from(2)));
    write("something else");
    let refused = windlass(&["trace", name]);
    assert!(
        refused.status.code() == Some(1) && String::from_utf8_lossy(&refused.stderr).contains("no trace")
    );
    assert_eq!(windlass(&["trace"]).status.code(), Some(2), "nothing was asked for");
    std::fs::remove_dir_all(folder).expect("it is ours");
}
