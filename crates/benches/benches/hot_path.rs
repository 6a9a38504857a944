//! The cases' time on this machine, by criterion: `cargo bench -p landfall-benches [-- <part of a name>]`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use landfall_benches::cases::Case;

fn hot_path(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hot_path");
    for case in Case::ALL {
        group.throughput(Throughput::Elements(case.per_round()));
        group.bench_function(case.name(), |bencher| match case.prepare() {
            Ok(mut round) => bencher.iter(|| {
                if let Err(error) = round() {
                    stop(case, &error);
                }
            }),
            Err(error) => stop(case, &error),
        });
    }
    group.finish();
}

/// A time for work that was not done would be worse than none.
fn stop(case: Case, error: &anyhow::Error) -> ! {
    eprintln!("{}: {error:#}", case.name());
    std::process::exit(1)
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
