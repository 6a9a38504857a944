//! What a benchmark ran on: enough to compare, nothing that names the machine.

use std::fs;
use std::path::Path;

/// Cores, processor, memory, kernel and disk.
pub(super) fn describe() -> Vec<(&'static str, String)> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = field(&read("/proc/cpuinfo"), "model name");
    let kilobytes = field(&read("/proc/meminfo"), "MemTotal");
    let memory = kilobytes.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    vec![
        ("cores", cores.to_string()),
        ("processor", processor),
        ("memory", format!("{:.1} GB", memory as f64 / 1_048_576.0)),
        ("kernel", format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim())),
        ("disk", disk(&read("/proc/mounts"))),
    ]
}

/// The value of `name : value` in a file of the kernel's.
fn field(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name));
    found.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

/// The file system of temporary folders, where the databases are, and the kind of its disk.
fn disk(mounts: &str) -> String {
    let folder = std::env::temp_dir();
    let holds = |line: &&str| line.split(' ').nth(1).is_some_and(|place| folder.starts_with(place));
    let mount = mounts.lines().filter(holds).max_by_key(|line| line.split(' ').nth(1).map(str::len));
    let mut words = mount.unwrap_or_default().split(' ');
    let (device, system) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or("unknown"));
    let name = device.rsplit('/').next().unwrap_or_default();
    let kind = ["", "/.."].iter().find_map(|up| {
        let file = format!("/sys/class/block/{name}{up}/queue/rotational");
        let text = fs::read_to_string(Path::new(&file)).ok()?;
        Some(if text.trim() == "0" { "solid state" } else { "rotating or virtual" })
    });
    format!("{system}, {}", kind.unwrap_or("kind unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        assert_eq!(field("model : 3\nmodel name\t: Some CPU @ 2 GHz\n", "model name"), "Some CPU @ 2 GHz");
        assert_eq!(field("", "model name"), "unknown");
    }
}
