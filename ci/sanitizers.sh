#!/usr/bin/env bash
# Runs the host's tests under a sanitizer of the compiler's. The runtimes come with the stable toolchain, the flag does not: it is
# allowed for these builds alone, which have a folder of their own.
#   address   memory that is used after its end or past it, and leaks: part of .ci/run
#   thread    data races
# usage: ci/sanitizers.sh [address|thread] [TEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-address}
shift || true
target=$(rustc --print host-tuple)
# The symbolizer: a report without names says little, and is a report all the same.
if tools=$(ci/tools.sh); then eval "$tools"; fi
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/sanitizers/$kind"
export RUSTC_BOOTSTRAP=1
# Lines for the reports, and no more to write than that.
export CARGO_PROFILE_DEV_DEBUG=line-tables-only
export ASAN_SYMBOLIZER_PATH=${LLVM_SYMBOLIZER:-} TSAN_SYMBOLIZER_PATH=${LLVM_SYMBOLIZER:-}

# With a target named, the flags stay away from macros and build scripts, which run inside of the compiler.
tests() {
    cargo test --target "$target" --package marshal --no-default-features --features derive "$@"
}
all=(--lib --test host --test host_backend --test derive --test layout)

# Tests that leak on purpose: that a value is leaked with `forget`, or a block of which nobody knows when its work ends, is the point.
leaking=(
    leaked_copies_leave_their_staging_alone
    borrowed_destinations_are_written_by_wait_alone
    a_set_of_another_stream_is_taken_through_on
    a_buffer_freed_on_another_stream_is_found
    a_set_that_stays_lent_is_never_written_nor_freed
    a_drop_while_unwinding_is_no_second_panic
    the_nth_call_fails_once_by_name_and_has_no_effect
    nothing_is_kept_for_no_graph_and_an_invalid_one_keeps_nothing
    blocks_of_a_capture_that_was_ended_under_it_count_no_more
    a_capture_that_its_closure_ends_keeps_what_it_reads
)

case $kind in
address)
    export RUSTFLAGS='-Z sanitizer=address'
    ASAN_OPTIONS=detect_leaks=1 tests "${all[@]}" -- "${leaking[@]/#/--skip=}" "$@"
    for test in "${leaking[@]}"; do
        found=$(ASAN_OPTIONS=detect_leaks=0 tests --quiet --test host --test host_backend -- "$test" 2>&1) || {
            echo "$found" >&2
            exit 1
        }
        # One that is gone or has another name would pass by not running.
        if ! grep -q '^test result: ok\. [1-9]' <<<"$found"; then
            echo "no test is called $test" >&2
            exit 1
        fi
    done
    ;;
thread)
    # What is linked of the standard library was not built for it, so the waits of its locks would go unseen, and what they order be
    # reported as a race: ci/thread-sanitizer.c tells of them. The linker has it called in their place, by the names that they have in
    # this toolchain.
    work=$CARGO_TARGET_DIR/waits
    mkdir -p "$work"
    cat >"$work/probe.rs" <<'PROBE'
use std::sync::{Condvar, Mutex};
struct Shared(std::cell::UnsafeCell<u64>);
unsafe impl Sync for Shared {}
fn main() {
    let is_locked = std::env::args().len() == 1;
    let (lock, changed, shared) = (Mutex::new(0), Condvar::new(), Shared(0.into()));
    let (shared, add) = (&shared, |shared: &Shared| unsafe { *shared.0.get() += 1 });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let count = is_locked.then(|| lock.lock().unwrap());
                    add(shared);
                    drop(count);
                }
                *lock.lock().unwrap() += 1;
                changed.notify_all();
            });
        }
        let (guard, _) = changed.wait_timeout(lock.lock().unwrap(), std::time::Duration::from_millis(1)).unwrap();
        drop(changed.wait_while(guard, |ended| *ended != 4));
        add(shared);
    });
    add(shared);
}
PROBE
    rustc -O --edition 2024 "$work/probe.rs" -o "$work/probe"
    define=(-DREAL='"__real_"' -DWRAP='"__wrap_"')
    export RUSTFLAGS="-Z sanitizer=thread -C unsafe-allow-abi-mismatch=sanitizer -C link-arg=$work/thread-sanitizer.o"
    while read -r macro function; do
        name=$(nm "$work/probe" | awk -v end="$function\$" '$3 ~ end { print $3 }')
        if [ "$(wc -w <<<"$name")" -ne 1 ]; then
            echo "not one $function in the standard library, but: $name" >&2
            exit 1
        fi
        define+=("-D$macro=\"$name\"")
        RUSTFLAGS+=" -C link-arg=-Wl,--wrap=$name"
    done <<'NAMES'
LOCK 5mutex5futexNtB2_5Mutex14lock_contended
WAIT 7condvar5futexNtB2_7Condvar4wait
WAIT_TIMEOUT 7condvar5futexNtB2_7Condvar12wait_timeout
END_SCOPED 9ScopeData29decrement_num_running_threads
NAMES
    "${CC:-cc}" -O1 -fPIC -Wall -Werror -c ci/thread-sanitizer.c "${define[@]}" -o "$work/thread-sanitizer.o"
    # The last handle of an `Arc` sees what the others did by a fence, which the tool does not know. The library's own output and test
    # runner were not built for it either.
    cat >"$work/suppressions" <<'SUPPRESSIONS'
race:alloc::sync::Arc*::drop_slow
race:<alloc::sync::Arc<*> as core::ops::drop::Drop>::drop
race:test::event::CompletedTest
race:std::io::stdio::StdoutRaw
SUPPRESSIONS
    export TSAN_OPTIONS="suppressions=$work/suppressions ${TSAN_OPTIONS:-}"
    # Locks and conditions order what they should, and what they do not is found.
    read -ra flags <<<"$RUSTFLAGS"
    rustc --edition 2024 "${flags[@]}" "$work/probe.rs" -o "$work/probe"
    "$work/probe"
    if "$work/probe" without-the-lock 2>"$work/report"; then
        echo 'a race was not found' >&2
        exit 1
    fi
    grep -q 'ThreadSanitizer: data race' "$work/report"
    # A panic's backtrace is the library's. And one test reads what a program prints, to which the tool's symbolizer may add.
    RUST_BACKTRACE=0 tests "${all[@]}" -- --skip an_error_that_nobody_waited_for_is_printed "$@"
    ;;
*)
    echo "no such sanitizer: $kind" >&2
    exit 1
    ;;
esac
