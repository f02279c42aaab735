//! The run as Markdown: what is printed, and kept beside the data.

use std::fmt::Write;

use super::claims::{Claim, Loss, Times};
use super::measure::{Spread, Timings};
use super::ours;
use super::record::{Row, Run, Table};

type Metric = fn(&Timings) -> Option<Spread>;

/// All that was measured.
pub(crate) fn tables(run: &Run) -> String {
    let mut text = String::new();
    let machine = &run.machine;
    section(
        &mut text,
        "# Beside what people use today",
        &[
            &format!("{}, {}, {}, commit {}.", machine.card, machine.driver, machine.date, machine.commit),
            &format!("Microseconds: median (10 % to 90 %). {}", machine.effort),
            "The arguments are a CUTLASS grouped GEMM's nine columns, 76 bytes a group; one element is new in every call. In the rounds of \
         a table all ways take turns in one process (PyTorch and CuPy in one of their own, right after). Before anything is timed a \
         kernel reads what each way has brought to the device, twice, and its sums are compared with the host's bytes.",
        ],
    );
    legend(&mut text, &run.sizes);
    let metrics: [(&str, Metric); 4] = [
        ("Host time a call, back to back", |timings| timings.back_to_back),
        ("Host time of one call on an idle stream", |timings| timings.host),
        ("One call, until the stream is idle", |timings| timings.to_idle),
        ("One call and a kernel that reads all of it, until both are done", |timings| timings.to_kernel),
    ];
    for (title, metric) in metrics {
        section(&mut text, &format!("## {title}"), &[]);
        by_size(&mut text, &run.sizes, metric);
    }
    each(&mut text, "## Thirty-two sets at once", &run.layers, "");
    each(
        &mut text,
        "## Through a CUDA graph",
        &run.graphs,
        "Each replay copies the arguments and reads them. The raw ways overwrite what a pending replay reads when the host runs ahead.",
    );
    steps(&mut text, run.steps.iter().chain(&run.graph_steps));
    each(
        &mut text,
        "## The same arguments for two devices",
        &run.devices,
        "Sets of one shape with other pointers, host time, back to back: a call for each device beside one `upload_each`.",
    );
    each(&mut text, "## What a cached upload is made of", &run.pieces, "Host time, back to back.");
    counters(&mut text, run);
    text
}

/// What follows from it: what did not run, where marshal loses, and what must hold.
pub(crate) fn verdict(run: &Run, claims: &[Claim], losses: &[Loss]) -> String {
    let mut text = String::new();
    if !run.not_run.is_empty() {
        section(&mut text, "## Not run", &[]);
        run.not_run.iter().for_each(|why| line(&mut text, &format!("- {why}")));
        line(&mut text, "");
    }
    lost(&mut text, losses);
    section(&mut text, "## Must hold", &[]);
    let rows = claims.iter().map(|claim| vec![claim.asked.clone(), claim.measured.clone(), claim.verdict().to_owned()]);
    table(&mut text, &["asked", "measured", ""], rows);
    text
}

fn legend(text: &mut String, tables: &[Table]) {
    section(text, "## The ways", &[]);
    let Some(first) = tables.first() else { return };
    let rows = first.rows.iter().map(|row| vec![row.name.clone(), row.calls.clone(), row.note.clone()]);
    table(text, &["way", "calls of the driver, a call", "what it is"], rows);
    let why = |table: &Table, row: &Row| Some(format!("- {}, {}: {}", row.name, table.title, row.not_run.as_ref()?));
    let reasons: Vec<String> =
        tables.iter().flat_map(|table| table.rows.iter().filter_map(move |row| why(table, row))).collect();
    if !reasons.is_empty() {
        line(text, "Not run:\n");
        reasons.iter().for_each(|reason| line(text, reason));
        line(text, "");
    }
}

/// A row a way, a column a size.
fn by_size(text: &mut String, tables: &[Table], metric: Metric) {
    let Some(first) = tables.first() else { return };
    let titles: Vec<String> = tables.iter().map(|table| table.title.clone()).collect();
    let header: Vec<&str> = std::iter::once("way").chain(titles.iter().map(String::as_str)).collect();
    let rows = first.rows.iter().map(|row| {
        let spread = |table: &Table| table.row(&row.name).and_then(|row| metric(&row.timings));
        let cell = |table: &Table| spread(table).map_or_else(|| "–".to_owned(), show);
        std::iter::once(row.name.clone()).chain(tables.iter().map(cell)).collect()
    });
    table(text, &header, rows);
}

/// A table a size, with all that was measured.
fn each(text: &mut String, title: &str, tables: &[Table], note: &str) {
    if tables.is_empty() {
        return;
    }
    section(text, title, if note.is_empty() { &[] } else { std::slice::from_ref(&note) });
    let metrics: [(&str, Metric); 5] = [
        ("back to back", |timings| timings.back_to_back),
        ("one call", |timings| timings.host),
        ("to idle", |timings| timings.to_idle),
        ("and the kernel", |timings| timings.to_kernel),
        ("one of many, until all are done", |timings| timings.pipelined),
    ];
    for one in tables {
        let is_measured = |metric: Metric| one.rows.iter().any(|row| metric(&row.timings).is_some());
        let measured: Vec<(&str, Metric)> = metrics.into_iter().filter(|&(_, metric)| is_measured(metric)).collect();
        section(text, &format!("### {}", one.title), &[]);
        let header: Vec<&str> = std::iter::once("way").chain(measured.iter().map(|&(name, _)| name)).collect();
        let rows = one.rows.iter().map(|row| {
            let cells = measured.iter().map(|(_, metric)| match (metric(&row.timings), &row.not_run) {
                (Some(spread), _) => show(spread),
                (None, Some(why)) => format!("not run: {why}"),
                (None, None) => "–".to_owned(),
            });
            std::iter::once(row.name.clone()).chain(cells).collect()
        });
        table(text, &header, rows);
    }
}

/// The share of a step is what it takes above the same step with a held set.
fn steps<'r>(text: &mut String, tables: impl Iterator<Item = &'r Table>) {
    let mut tables = tables.peekable();
    if tables.peek().is_none() {
        return;
    }
    section(
        text,
        "## End to end: a grouped GEMM step",
        &[
            "Eight experts of Mixtral-8x7B's shape through CUTLASS's kernel. The share is what a step takes above the same step with held \
         arguments, of itself. Steps in a pipeline hide the host's work where the device has more to do.",
        ],
    );
    for one in tables {
        section(text, &format!("### {}", one.title), &[]);
        let share = |metric: Metric, row: &Timings| {
            let (held, own) = (metric(&one.row(ours::HELD)?.timings)?.median, metric(row)?.median);
            Some(format!("{:.1} %", 100.0 * (own - held) / own))
        };
        let rows = one.rows.iter().map(|row| {
            let cell = |metric: Metric| metric(&row.timings).map_or_else(|| "–".to_owned(), show);
            let alone: Metric = |timings| timings.to_kernel;
            let many: Metric = |timings| timings.pipelined;
            let none = || row.not_run.clone().unwrap_or_else(|| "–".to_owned());
            vec![
                row.name.clone(),
                cell(|timings| timings.host),
                cell(alone),
                share(alone, &row.timings).unwrap_or_else(none),
                cell(many),
                share(many, &row.timings).unwrap_or_else(none),
            ]
        });
        let header = ["way", "host time of a step", "one step until done", "share", "one of many", "share"];
        table(text, &header, rows);
    }
}

fn counters(text: &mut String, run: &Run) {
    section(
        text,
        "## What a warm cache takes",
        &[
            "Allocations on the heap as a counting allocator sees them, page-locked bytes and blocks as `CacheStats` counts them, device \
         bytes as the driver does.",
        ],
    );
    let rows = run.counters.iter().map(|counters| {
        vec![
            format!("{} groups, {}", counters.groups, counters.what),
            counters.uploads.to_string(),
            counters.copies.to_string(),
            counters.heap_allocations.to_string(),
            counters.pinned_bytes.to_string(),
            counters.block_allocations.to_string(),
            counters.device_bytes.to_string(),
            if counters.is_zero() { "0, as it must be" } else { "**takes memory**" }.to_owned(),
        ]
    });
    let header = ["", "uploads", "copies", "heap", "page-locked bytes", "blocks", "device bytes", ""];
    table(text, &header, rows);
}

fn lost(text: &mut String, losses: &[Loss]) {
    section(
        text,
        "## Where marshal loses",
        &[
            "Every way of marshal that took longer than a peer, at any size: groups, and how many times as long. F and L are limits, not \
         peers.",
        ],
    );
    if losses.is_empty() {
        line(text, "Nowhere in this run.\n");
        return;
    }
    let rows = losses.iter().map(|loss| {
        let size = |Times { groups, times, is_clear }: &Times| {
            format!("{groups}: {times:.2} x{}", if *is_clear { "" } else { " (spreads meet)" })
        };
        let sizes: Vec<String> = loss.sizes.iter().map(size).collect();
        vec![loss.ours.clone(), loss.peer.clone(), loss.metric.to_owned(), sizes.join(", "), loss.why.to_owned()]
    });
    table(text, &["way", "peer", "measured", "groups: times as long", "why"], rows);
}

fn show(Spread { median, p10, p90 }: Spread) -> String {
    format!("{} ({} to {})", number(median), number(p10), number(p90))
}

/// Three digits.
fn number(micros: f64) -> String {
    let digits = if micros >= 100.0 {
        0
    } else if micros >= 10.0 {
        1
    } else {
        2
    };
    format!("{micros:.digits$}")
}

fn section(text: &mut String, title: &str, paragraphs: &[&str]) {
    line(text, &format!("{title}\n"));
    paragraphs.iter().for_each(|paragraph| line(text, &format!("{paragraph}\n")));
}

fn table(text: &mut String, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    line(text, &format!("| {} |", header.join(" | ")));
    line(text, &format!("|{}", "---|".repeat(header.len())));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        line(text, &format!("| {} |", cells.join(" | ")));
    }
    line(text, "");
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes all");
}
