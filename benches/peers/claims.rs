//! What must hold, held against the run; and everywhere that marshal loses. Misses are said as plainly as hits.

use serde::Serialize;

use super::measure::{Spread, Timings};
use super::record::{Run, Table};
use super::way::Side;
use super::{layers, limits, ours, outside, theirs};

/// One of the things that are measured.
type Metric = fn(&Timings) -> Option<Spread>;

/// Groups of the claims that name no other number.
const GROUPS: usize = 64;

#[derive(Serialize)]
pub(crate) struct Claim {
    pub(crate) asked: String,
    pub(crate) measured: String,
    /// None: not measured in this run.
    pub(crate) holds: Option<bool>,
}

impl Claim {
    fn new(asked: impl Into<String>, measured: Option<(String, bool)>) -> Self {
        match measured {
            Some((measured, holds)) => Self { asked: asked.into(), measured, holds: Some(holds) },
            None => Self { asked: asked.into(), measured: "not measured in this run".to_owned(), holds: None },
        }
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "**misses**",
            None => "not measured",
        }
    }
}

/// All that must hold, in host time back to back where nothing else is said.
pub(crate) fn all(run: &Run) -> Vec<Claim> {
    let mut claims = faster_than_peers(run);
    claims.push(within(&run.sizes, limits::L, ours::CHANGED, 1.15));
    claims.push(batch(&run.layers, "host time, back to back", |timings| timings.back_to_back));
    claims.push(batch(&run.layers, "until the device is idle", |timings| timings.to_idle));
    claims.push(Claim::new(
        "steady state: 0 heap, 0 page-locked, 0 device allocations",
        (!run.counters.is_empty()).then(|| {
            let taken = run.counters.iter().filter(|counters| !counters.is_zero()).count();
            (format!("{taken} of {} counts took memory", run.counters.len()), taken == 0)
        }),
    ));
    claims.push(linear(&run.sizes));
    claims.push(Claim::new(
        format!("one-shot: at most half of {}, at every size", theirs::EXTENSION),
        worst(&run.sizes, ours::ONE_SHOT, theirs::EXTENSION, |timings| timings.back_to_back)
            .map(|(ratio, groups)| at_most(ratio, 0.5, groups)),
    ));
    claims
}

fn faster_than_peers(run: &Run) -> Vec<Claim> {
    let asked = [
        (theirs::KEPT, 20.0),
        (theirs::EXAMPLE_24, 40.0),
        (theirs::EXTENSION, 5.0),
        (theirs::BATCHED, 3.5),
        (theirs::CUDARC, 20.0),
        (outside::TORCH, 100.0),
    ];
    let table = run.sizes.iter().find(|table| table.number == GROUPS);
    let claim = |(peer, least): (&str, f64)| {
        let times = |ours| table.and_then(|table| ratio(table, peer, ours));
        // What no code that packs these bytes can pass on this machine.
        let hand = times(limits::L).unwrap_or(f64::NAN);
        let said = times(ours::CHANGED).map(|times| (format!("{times:.1} x; L, by hand, {hand:.1} x"), times >= least));
        Claim::new(format!("cached, changed, {GROUPS} groups: at least {least} x faster than {peer}"), said)
    };
    asked.map(claim).into()
}

fn within(tables: &[Table], limit: &str, name: &str, most: f64) -> Claim {
    let table = tables.iter().find(|table| table.number == GROUPS);
    let measured = table.and_then(|table| ratio(table, name, limit));
    Claim::new(
        format!("{name}, {GROUPS} groups: within {most} of {limit}"),
        measured.map(|ratio| (format!("{ratio:.2} x"), ratio <= most)),
    )
}

fn at_most(ratio: f64, most: f64, groups: usize) -> (String, bool) {
    (format!("at worst {ratio:.2} x, at {groups} groups"), ratio <= most)
}

/// The time a byte may grow when the bytes leave the processor's caches: the careful hand's does too. It may not grow more.
fn linear(tables: &[Table]) -> Claim {
    let asked = "cached, changed: cost linear in bytes to 1,000,000 groups (the time a byte from 65,536 on grows by at most 1.25 x \
                 what L's does)";
    let growth = |name: &str| {
        let a_byte = |groups: usize| {
            let table = tables.iter().find(|table| table.number == groups)?;
            Some(table.back_to_back(name)?.median / table.bytes as f64)
        };
        Some(a_byte(1_000_000)? / a_byte(65_536)?)
    };
    let measured = growth(ours::CHANGED).zip(growth(limits::L));
    let said = measured.map(|(ours, hand)| (format!("{ours:.2} x, L's {hand:.2} x"), ours <= 1.25 * hand));
    Claim::new(asked, said)
}

/// A copy's floor touches no source: what packing the same bytes by hand costs is said beside it.
fn batch(tables: &[Table], what: &str, metric: Metric) -> Claim {
    let measured = worst(tables, layers::BATCH, layers::RAW, metric).map(|(ratio, groups)| {
        let table = tables.iter().find(|table| table.number == groups);
        let hand = table.and_then(|table| ratio_of(table, layers::HAND, layers::RAW, metric)).unwrap_or(f64::NAN);
        let (said, holds) = at_most(ratio, 1.3, groups);
        (format!("{said}; packed by hand {hand:.2} x"), holds)
    });
    Claim::new(format!("a batch of 32 layers: at most 1.3 x {}, {what}", layers::RAW), measured)
}

/// How many times the back-to-back time of `below` that of `above` is.
fn ratio(table: &Table, above: &str, below: &str) -> Option<f64> {
    ratio_of(table, above, below, |timings| timings.back_to_back)
}

fn ratio_of(table: &Table, above: &str, below: &str, metric: Metric) -> Option<f64> {
    let median = |name| Some(metric(&table.row(name)?.timings)?.median);
    Some(median(above)? / median(below)?)
}

/// The largest ratio over the tables, and where.
fn worst(tables: &[Table], above: &str, below: &str, metric: Metric) -> Option<(f64, usize)> {
    let ratios = tables.iter().filter_map(|table| Some((ratio_of(table, above, below, metric)?, table.number)));
    ratios.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// How many times as long, at a number of groups.
#[derive(Serialize)]
pub(crate) struct Times {
    pub(crate) groups: usize,
    pub(crate) times: f64,
    /// The spreads do not meet: no noise of this run.
    pub(crate) is_clear: bool,
}

/// One of our ways that takes longer than a peer.
#[derive(Serialize)]
pub(crate) struct Loss {
    pub(crate) ours: String,
    pub(crate) peer: String,
    pub(crate) metric: &'static str,
    pub(crate) sizes: Vec<Times>,
    pub(crate) why: &'static str,
}

/// Every loss in the sweep, whatever is compared.
pub(crate) fn losses(run: &Run) -> Vec<Loss> {
    let metrics: [(&'static str, Metric); 3] = [
        ("host, back to back", |timings| timings.back_to_back),
        ("one call to idle", |timings| timings.to_idle),
        ("one call and the kernel", |timings| timings.to_kernel),
    ];
    let names = |side| {
        let mut names: Vec<&str> = Vec::new();
        for row in run.sizes.iter().flat_map(|table| &table.rows).filter(|row| row.side == side) {
            if !names.contains(&row.name.as_str()) {
                names.push(&row.name);
            }
        }
        names
    };
    let mut losses = Vec::new();
    for (metric, get) in metrics {
        for ours in names(Side::Marshal) {
            for peer in names(Side::Peer) {
                let lost = |table: &Table| {
                    let of = |name| get(&table.row(name)?.timings);
                    let (own, other) = (of(ours)?, of(peer)?);
                    let times = own.median / other.median;
                    let is_clear = own.p10 > other.p90;
                    (times > 1.0).then_some(Times { groups: table.number, times, is_clear })
                };
                let sizes: Vec<Times> = run.sizes.iter().filter_map(lost).collect();
                if !sizes.is_empty() {
                    let why = why(ours, peer);
                    losses.push(Loss { ours: ours.to_owned(), peer: peer.to_owned(), metric, sizes, why });
                }
            }
        }
    }
    losses
}

/// What the peer leaves out, or we do on top.
fn why(ours: &str, peer: &str) -> &'static str {
    match (ours, peer) {
        (_, theirs::PINNED | theirs::BATCHED | outside::TORCH_KEPT) => {
            "its columns live in page-locked memory: nothing is packed or compared, and nothing guards what a pending copy reads"
        }
        (ours::UNCHANGED, _) => {
            "all bytes are compared, and the device does not work: at these sizes a copy costs less host time"
        }
        (ours::ONE_SHOT, theirs::KEPT | theirs::FLASHINFER | theirs::TRANSFORMER_ENGINE) => {
            "one-shot allocates and frees a block and copies from ordinary memory; the peer has kept its own"
        }
        (ours::LAST | ours::CHANGED | ours::ROWS, theirs::FLASHINFER) => {
            "it packs and copies as we do, without comparing, locking or guarding its one buffer: it is wrong when the host runs ahead"
        }
        (ours::LAST | ours::CHANGED | ours::ROWS, theirs::TRANSFORMER_ENGINE) => {
            "it does not compare, and its one buffer is shared by the whole process without a lock"
        }
        (ours::ONE_SHOT, theirs::EXTENSION) => {
            "both pack into memory that is new in each call, beyond 64 MiB ours too; ours is kept until the copy has run, and freed later"
        }
        (ours::ONE_SHOT, _) => {
            "beyond the caches each byte costs: it is packed into the image, and the driver copies the image once more into memory of \
             its own; the peer's columns are read where they stand"
        }
        (ours::LAST, _) => {
            "beyond the caches each byte costs: all is compared first, then packed, by one thread; the peer's columns are read where \
             they stand"
        }
        (ours::ROWS, _) => {
            "beyond the caches each byte costs: all is turned from rows to columns, by one thread; the peer's columns are read where \
             they stand"
        }
        (ours::CHANGED, _) => {
            "beyond the caches each byte costs: all is packed, by one thread, as L does it; the peer's columns are read where they stand"
        }
        _ => "not explained",
    }
}
