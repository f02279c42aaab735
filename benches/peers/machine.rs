//! What the results are marked with.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::gpu::Gpu;
use super::record::Machine;

pub(crate) fn describe(gpu: &Gpu, commit: Option<&str>, effort: String) -> Machine {
    let driver = said("nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]);
    let commit = commit.map(str::to_owned).or_else(|| said("git", &["rev-parse", "HEAD"]));
    Machine {
        card: gpu.context.name().unwrap_or_else(|_| "name unknown".to_owned()),
        driver: driver.map_or_else(|| "driver unknown".to_owned(), |version| format!("driver {version}")),
        date: today(),
        commit: commit.unwrap_or_else(|| "unknown".to_owned()),
        effort,
    }
}

/// The first line that a program prints, where it is there and ends well.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
}

/// The date, in UTC.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// The date of a day since 1970-01-01. Counted in eras of 400 years that begin on a 1st of March, so that a leap day ends a year.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let of_era = day % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    let year = day / 146_097 * 400 + year + u64::from(calendar_month <= 2);
    (year, calendar_month, of_year - (153 * month + 2) / 5 + 1)
}
