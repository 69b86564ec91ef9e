//! A picture of load curves: how many answers are in time, and how long they take.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use plotters::coord::Shift;
use plotters::prelude::*;

/// Width and height of both charts together.
const SIZE: (u32, u32) = (1100, 420);

const COLOURS: [RGBColor; 3] = [RGBColor(27, 110, 194), RGBColor(217, 95, 2), RGBColor(90, 90, 90)];

/// A way's points: the load, and one of its columns.
type Curves = Vec<(String, Vec<(f64, f64)>)>;

/// Makes `FILE.svg` of a file of what `--load` printed.
pub(crate) fn draw(lines: &Path) -> ExitCode {
    match draw_to(lines, &lines.with_extension("svg")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", lines.display());
            ExitCode::FAILURE
        }
    }
}

fn draw_to(lines: &Path, picture: &Path) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(lines)?;
    let (in_time, p99) = (curves(&text, 2)?, curves(&text, 4)?);
    let all = SVGBackend::new(picture, SIZE).into_drawing_area();
    all.fill(&WHITE)?;
    let (left, right) = all.split_horizontally(SIZE.0 / 2);
    chart(&left, "answers in 20 ms, a second", &in_time)?;
    chart(&right, "99 of 100 answers come in, us", &p99)?;
    all.present()?;
    Ok(())
}

/// A column over the load, for each way in the order of the lines.
fn curves(text: &str, column: usize) -> Result<Curves, Box<dyn Error>> {
    let mut curves: Curves = Vec::new();
    let mut places = BTreeMap::new();
    for line in text.lines().skip(1) {
        // Names are in quotes, because of the commas in them.
        let (name, numbers) = line[1..].split_once("\",").ok_or_else(|| format!("no name: {line}"))?;
        let numbers: Vec<f64> = numbers.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let (Some(&load), Some(&value)) = (numbers.first(), numbers.get(column - 1)) else {
            return Err(format!("too few columns: {line}").into());
        };
        let place = *places.entry(name.to_owned()).or_insert(curves.len());
        if place == curves.len() {
            curves.push((name.to_owned(), Vec::new()));
        }
        // Loads at which nobody had an answer have no such point, and a scale of powers has no zero.
        if value > 0.0 {
            curves[place].1.push((load, value));
        }
    }
    Ok(curves)
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    what: &str,
    curves: &Curves,
) -> Result<(), Box<dyn Error>> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let (x, y) = (span(points().map(|point| point.0)), span(points().map(|point| point.1)));
    let mut chart = ChartBuilder::on(area)
        .caption(what, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d((x.0..x.1).log_scale(), (y.0..y.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("requests that come, a second")
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .light_line_style(RGBColor(236, 236, 236))
        .draw()?;
    for ((name, points), colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3);
        chart
            .draw_series(line)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    Ok(())
}

/// From the least to the most, and a little beyond.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values
        .fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| (value.min(least), value.max(most)));
    (least / 1.3, most * 1.6)
}

/// 1500 is 1.5k.
fn short(value: &f64) -> String {
    match *value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    }
}
