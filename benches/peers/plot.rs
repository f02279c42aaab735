//! The plots of a run, as SVG: no background, lines in mid-tones and text in the colour of the reader's scheme, so that they are read
//! on light and on dark pages.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::measure::{Spread, Timings};
use super::record::{Run, Table};
use super::way::Side;
use super::{graphs, limits, ours, outside, theirs};

/// Text is written in this, and given the reader's colour afterwards.
const TEXT: RGBColor = RGBColor(119, 119, 119);
const GRID: RGBColor = RGBColor(140, 140, 140);

/// Readable on white and on near-black.
const COLOURS: [RGBColor; 12] = [
    RGBColor(218, 94, 60),
    RGBColor(66, 133, 210),
    RGBColor(70, 160, 90),
    RGBColor(170, 110, 200),
    RGBColor(190, 140, 40),
    RGBColor(40, 160, 170),
    RGBColor(205, 95, 150),
    RGBColor(125, 125, 125),
    RGBColor(150, 110, 80),
    RGBColor(110, 120, 200),
    RGBColor(150, 165, 60),
    RGBColor(225, 120, 120),
];

/// Plain text follows the page: a style inside an image sees the reader's scheme.
const STYLE: &str = "<style>text{fill:#24292f}@media (prefers-color-scheme:dark){text{fill:#d6dce2}}</style>";

struct Line {
    name: String,
    side: Side,
    points: Vec<(f64, f64)>,
}

/// The plots of the sweep and of the steps.
pub(crate) fn draw(folder: &Path, run: &Run) -> Result<(), Box<dyn Error>> {
    let ways = [
        ours::CHANGED,
        ours::ONE_SHOT,
        ours::UNCHANGED,
        theirs::EXAMPLE_24,
        theirs::KEPT,
        theirs::CUDARC,
        theirs::EXTENSION,
        theirs::BATCHED,
        theirs::FLASHINFER,
        outside::TORCH,
        limits::L,
    ];
    let host = lines(&run.sizes, &ways, |timings| timings.back_to_back);
    chart(&folder.join("host.svg"), "Host time a call, back to back", "groups", &host)?;
    let kernel = lines(&run.sizes, &ways, |timings| timings.to_kernel);
    chart(&folder.join("kernel.svg"), "One call and a kernel that reads the arguments", "groups", &kernel)?;
    let with_held: Vec<&str> = ways.into_iter().chain([ours::HELD]).collect();
    let step = lines(&run.steps, &with_held, |timings| timings.to_kernel);
    chart(&folder.join("step.svg"), "A grouped GEMM step, until it is done", "tokens", &step)?;
    let replays = [graphs::REFRESHED, graphs::NINE, graphs::HAND, graphs::ALONE, ours::HELD];
    let graph = lines(&run.graph_steps, &replays, |timings| timings.to_kernel);
    chart(&folder.join("step-graph.svg"), "The step in a graph, until it is done", "tokens", &graph)
}

/// What was measured of each of `ways`, over the tables.
fn lines(tables: &[Table], ways: &[&str], metric: fn(&Timings) -> Option<Spread>) -> Vec<Line> {
    let line = |&name: &&str| {
        let point = |table: &Table| Some((table.number as f64, metric(&table.row(name)?.timings)?.median));
        let side = tables.iter().find_map(|table| Some(table.row(name)?.side))?;
        Some(Line { name: name.to_owned(), side, points: tables.iter().filter_map(point).collect() })
    };
    ways.iter().filter_map(line).filter(|line| !line.points.is_empty()).collect()
}

/// Microseconds over a number, both logarithmic. Nothing is drawn where nothing was measured.
fn chart(path: &Path, title: &str, x: &str, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let least = |get: fn(&(f64, f64)) -> f64| all().map(get).fold(f64::INFINITY, f64::min);
    let most = |get: fn(&(f64, f64)) -> f64| all().map(get).fold(0.0, f64::max);
    if lines.is_empty() {
        return Ok(());
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (960, 600)).into_drawing_area();
        let text = |size: u32| ("sans-serif", size).into_font().color(&TEXT);
        // The right third is the legend's.
        let (left, right) = root.split_horizontally(640);
        let mut chart = ChartBuilder::on(&left)
            .caption(title, text(18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(
                (least(|point| point.0)..most(|point| point.0) * 1.05).log_scale(),
                (least(|point| point.1) / 1.3..most(|point| point.1) * 1.3).log_scale(),
            )?;
        chart
            .configure_mesh()
            .axis_style(GRID)
            .bold_line_style(GRID.mix(0.35))
            .light_line_style(GRID.mix(0.12))
            .label_style(text(13))
            .x_desc(x)
            .y_desc("microseconds")
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| if *value < 1.0 { format!("{value:.2}") } else { format!("{value:.0}") })
            .draw()?;
        for (index, line) in lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            // Ours are the heavy ones.
            let style = colour.stroke_width(if line.side == Side::Marshal { 4 } else { 2 });
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))?;
            let y = 50 + 24 * i32::try_from(index)?;
            right.draw(&PathElement::new([(0, y), (24, y)], style))?;
            right.draw(&Text::new(line.name.clone(), (32, y - 6), text(13)))?;
        }
        root.present()?;
    }
    let at = svg.find('>').ok_or("the drawing is no SVG")? + 1;
    svg.insert_str(at, STYLE);
    std::fs::write(path, svg)?;
    Ok(())
}
