//! Rules about the workspace's crates.

use super::Breach;
use super::tree::{File, Tree};

/// Who may use whom among our own crates, tests aside. What is not listed here uses what it likes, and nobody may use it.
const MAY_USE: &[(&str, &[&str])] = &[
    ("kernel", &[]),
    ("sync", &[]),
    ("kernel/macros", &[]),
    ("kernel/translate", &[]),
    ("runtime/engine", &[]),
    ("backends/api", &["windlass-kernel", "windlass-sync"]),
    ("backends/host", &["windlass-backend", "windlass-kernel", "windlass-sync"]),
    // The translator is for those who hand texts to drivers, so that a host-only program does without it.
    (
        "backends/opencl",
        &["windlass-backend", "windlass-kernel", "windlass-kernel-translate", "windlass-sync"],
    ),
    ("backends/wgpu", &["windlass-backend", "windlass-kernel", "windlass-kernel-translate", "windlass-sync"]),
    // On public interface only: it is the proof that a third party can write a backend.
    ("verify/faulty", &["windlass", "windlass-backend", "windlass-kernel", "windlass-testkit"]),
    ("verify/conformance", &["windlass", "windlass-backend", "windlass-kernel", "windlass-testkit"]),
    ("verify/testkit", &[]),
    (
        "runtime",
        &[
            "windlass-backend",
            "windlass-batching",
            "windlass-engine",
            "windlass-kernel",
            "windlass-kernel-macros",
            // Where shaders in SPIR-V are asked for, by a feature.
            "windlass-kernel-translate",
            "windlass-sync",
            "windlass-host",
            "windlass-opencl",
            "windlass-wgpu",
        ],
    ),
];

pub(super) fn downwards(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (folder, allowed) in MAY_USE {
        let path = format!("{folder}/Cargo.toml");
        let Some(text) = tree.text(&path) else { continue };
        let used = section(text, "[dependencies]").filter_map(dependency);
        let upwards = used.filter(|name| name.starts_with("windlass") && !allowed.contains(name));
        breaches.extend(upwards.map(|name| format!("{path}: {folder} may not use {name}")));
    }
    breaches
}

/// Who reads kernels' texts: while a program is compiled, and for the backends that hand them to drivers. A program with
/// the host backend alone has no reader in it.
const READERS: &[&str] = &["kernel/macros/Cargo.toml", "kernel/translate/Cargo.toml"];

pub(super) fn readers(tree: &Tree) -> Vec<Breach> {
    let others = tree.ending("/Cargo.toml").filter(|file| !READERS.contains(&file.path.as_str()));
    let reads = |file: &&File| {
        section(&file.text, "[dependencies]").filter_map(dependency).any(|name| name == "naga")
    };
    others.filter(reads).map(|file| format!("{}: naga is for {}", file.path, READERS.join(" and "))).collect()
}

pub(super) fn uniform(tree: &Tree) -> Vec<Breach> {
    let members = tree.ending("/Cargo.toml");
    members.flat_map(breaks_uniformity).collect()
}

fn breaks_uniformity(file: &File) -> Vec<Breach> {
    let mut breaches = Vec::new();
    if !section(&file.text, "[lints]").any(|line| line == "workspace = true") {
        breaches.push(format!("{}: no `[lints] workspace = true`", file.path));
    }
    let mut at = "";
    for (i, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            at = line;
        } else if at.contains("dependencies") && line.contains('=') {
            // By path is our own crate, where the default features are not wanted.
            let shared = ["workspace = true", ".workspace", "path ="].iter().any(|form| line.contains(form));
            if !shared && dependency(line).is_some() {
                breaches.push(file.at(i + 1, "a dependency whose version is not the workspace's"));
            }
        }
    }
    breaches
}

/// The lines of one section of a manifest.
fn section<'a>(text: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().map(str::trim).skip_while(move |line| *line != header).skip(1);
    lines.take_while(|line| !line.starts_with('['))
}

/// The name of a dependency, on a line that starts one.
fn dependency(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim().trim_end_matches(".workspace");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}
