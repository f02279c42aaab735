#!/usr/bin/env bash
# Runs the host's tests under a sanitizer of the compiler's. The runtimes come with the stable toolchain, the flag does not: it is
# allowed for these builds alone, which have a folder of their own.
#   address   memory that is used after its end or past it, and leaks: part of .ci/run
#   thread    data races. Not part of .ci/run: it reports what is none, see below
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
    # What is linked of the standard library was not built for it: a fence there, which the count of an `Arc` relies on, and the waits
    # of its locks go unseen, and what they order is reported as a race. A report is a reason to look, none is no proof.
    export RUSTFLAGS='-Z sanitizer=thread -C unsafe-allow-abi-mismatch=sanitizer'
    tests "${all[@]}" -- "$@"
    ;;
*)
    echo "no such sanitizer: $kind" >&2
    exit 1
    ;;
esac
