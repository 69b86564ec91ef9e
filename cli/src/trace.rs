//! What a program has done, from the file that it wrote.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{Failure, TraceArgs, Verdict};

/// What a program did of one kind.
#[derive(Default)]
struct Sum {
    times: u64,
    together: f64,
    longest: f64,
    waited: f64,
    failed: u64,
}

pub(crate) fn show(args: &TraceArgs) -> Verdict {
    let (events, went_well) = match &args.file {
        Some(file) => (read(file)?, true),
        None => run(&args.program)?,
    };
    let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    if let Some(page) = &args.output {
        let entries = entries(&events, &slices);
        let lines: Vec<String> = entries.iter().map(ToString::to_string).collect();
        fs::write(page, windlass::trace::page_of(&lines.join(",\n")))
            .map_err(|error| format!("{}: {error}", page.display()))?;
    }
    let sums = sums(&slices);
    match args.json {
        true => tell_json(&sums),
        false => tell(&sums, args.output.as_deref()),
    }
    Ok(went_well)
}

/// Runs a program, and reads what it and those that it starts have written.
fn run(program: &[String]) -> Result<(Vec<Value>, bool), Failure> {
    let folder = std::env::temp_dir().join(format!("windlass-trace-{}", std::process::id()));
    // Not one that is there: it might be somebody else's.
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let read = watched(program, &folder);
    let _ = fs::remove_dir_all(&folder);
    read
}

fn watched(program: &[String], folder: &Path) -> Result<(Vec<Value>, bool), Failure> {
    let [name, arguments @ ..] = program else { return Err("there is no program to run".into()) };
    // Ctrl-C ends the program, and not who waits for it: what a service has done is shown when it ends.
    ctrlc::set_handler(|| ())?;
    let status = Command::new(name)
        .args(arguments)
        .env("WINDLASS_TRACE", folder.join("%p.json"))
        .status()
        .map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        eprintln!("windlass: {name} ended with {status}");
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<_>>()?;
    files.sort();
    if files.is_empty() {
        return Err(format!("{name} has made no runtime of Windlass, so there is nothing to show").into());
    }
    Ok((together(files.iter().map(|file| read(file)).collect::<Result<_, _>>()?), status.success()))
}

/// The events of several runtimes, by one clock, each runtime with numbers of its own.
fn together(traces: Vec<Vec<Value>>) -> Vec<Value> {
    let began = |events: &[Value]| {
        let first = events.iter().find(|event| event["name"] == "windlass_began");
        first.map_or(0.0, |event| number(&event["args"], "unix_us"))
    };
    let earliest = traces.iter().map(|events| began(events)).fold(f64::INFINITY, f64::min);
    let several = traces.len() > 1;
    let each = traces.into_iter().zip(0_u64..).flat_map(|(mut events, at)| {
        let later = began(&events) - earliest;
        // More than a runtime has devices, and more than it has groups: numbers up to 2^53 are whole in JSON.
        let (rows, ids) = (at * 1000, at << 40);
        let shift = |of: &mut Value, by: u64| {
            if let Some(number) = of.as_u64() {
                *of = json!(number + by);
            }
        };
        for event in &mut events {
            if event["ts"].is_number() {
                event["ts"] = json!(number(event, "ts") + later);
            }
            if event["name"] == "process_name" && several {
                let name = event["args"]["name"].as_str().unwrap_or_default();
                event["args"]["name"] = json!(format!("{name}, runtime {}", at + 1));
            }
            shift(&mut event["pid"], rows);
            shift(&mut event["args"]["id"], ids);
            shift(&mut event["args"]["copy_for"], ids);
            for id in event["args"]["after"].as_array_mut().into_iter().flatten() {
                shift(id, ids);
            }
        }
        events
    });
    each.collect()
}

/// The events of a file, whose program may have ended in the middle.
fn read(file: &Path) -> Result<Vec<Value>, Failure> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| told(&error))?;
    let text = text.trim_end();
    if !text.starts_with('[') {
        return Err(told(&"this is no trace: WINDLASS_TRACE has programs write them").into());
    }
    let whole = if text.ends_with(']') { text.to_owned() } else { format!("{text}]") };
    match serde_json::from_str(&whole) {
        Ok(Value::Array(events)) => Ok(events),
        Ok(_) => Err(told(&"this is no list of events").into()),
        // A machine that stopped leaves half a line.
        Err(_) => {
            let lines =
                text[1..].lines().filter_map(|line| serde_json::from_str(line.trim_end_matches(',')).ok());
            Ok(lines.collect())
        }
    }
}

/// The entries of a page, as the runtime itself writes them.
fn entries(events: &[Value], slices: &[&Value]) -> Vec<Value> {
    let named = |what: &str| -> HashMap<(u64, u64), &str> {
        let of = events.iter().filter(|event| event["ph"] == "M" && event["name"] == what);
        of.filter_map(|event| Some((row(event), event["args"]["name"].as_str()?))).collect()
    };
    let (places, lanes) = (named("process_name"), named("thread_name"));
    let nanos = |micros: f64| (micros * 1e3).round().max(0.0) as u64;
    let entry = |slice: &&Value| {
        let (started, took) = (number(slice, "ts"), number(slice, "dur"));
        let (process, thread) = row(slice);
        let kind = match slice["cat"].as_str() {
            Some("group") => "group",
            Some("host accessor") => "accessor",
            _ => "copy",
        };
        let mut entry = json!({
            "label": slice["name"],
            "kind": kind,
            "place": places.get(&(process, 0)).copied().unwrap_or("somewhere"),
            "submitted": nanos(started - number(&slice["args"], "waited_us")),
            "started": nanos(started),
            "ended": nanos(started + took),
            "more": slice["args"],
        });
        let lane =
            lanes.get(&(process, thread)).and_then(|name| name.strip_prefix("lane ")?.parse::<u32>().ok());
        if let Some(lane) = lane {
            entry["lane"] = json!(lane);
        }
        entry
    };
    slices.iter().map(entry).collect()
}

fn row(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap_or(0), event["tid"].as_u64().unwrap_or(0))
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or(0.0)
}

/// By what the program called it, the longest first.
fn sums(slices: &[&Value]) -> Vec<(String, Sum)> {
    let mut sums: HashMap<String, Sum> = HashMap::new();
    for slice in slices {
        let name = match slice["cat"].as_str() {
            Some("copy") => "copies",
            _ => slice["name"].as_str().unwrap_or("?"),
        };
        let (sum, took) = (sums.entry(name.into()).or_default(), number(slice, "dur"));
        sum.times += 1;
        sum.together += took;
        sum.longest = sum.longest.max(took);
        sum.waited += number(&slice["args"], "waited_us");
        sum.failed += u64::from(slice["args"]["outcome"] == "failed");
    }
    let mut sums: Vec<(String, Sum)> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| b.together.total_cmp(&a.together));
    sums
}

fn tell(sums: &[(String, Sum)], page: Option<&Path>) {
    println!(
        "{:<40} {:>8} {:>14} {:>12} {:>12} {:>12}",
        "what", "times", "together", "mean", "longest", "mean wait"
    );
    for (name, sum) in sums {
        let mean = |all: f64| format!("{:.1} us", all / sum.times as f64);
        let (together, longest) = (format!("{:.1} us", sum.together), format!("{:.1} us", sum.longest));
        let failed = if sum.failed > 0 { format!("  {} FAILED", sum.failed) } else { String::new() };
        let (took, waited) = (mean(sum.together), mean(sum.waited));
        println!("{name:<40} {:>8} {together:>14} {took:>12} {longest:>12} {waited:>12}{failed}", sum.times);
    }
    if let Some(page) = page {
        println!("a page that shows it is in {}", page.display());
    }
}

fn tell_json(sums: &[(String, Sum)]) {
    let each = sums.iter().map(|(name, sum)| {
        json!({
            "what": name,
            "times": sum.times,
            "together_us": sum.together,
            "longest_us": sum.longest,
            "waited_us": sum.waited,
            "failed": sum.failed,
        })
    });
    println!("{}", Value::Array(each.collect()));
}
