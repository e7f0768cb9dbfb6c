# Sourced by tests of commands, in the folder where the commands run: $suite is
# the test's name, $program the program, $as the command before it that changes
# the user (empty: none). Counts in $passed and $failed.
# shellcheck shell=sh disable=SC2034,SC2154 # the names above are the test's
failed=0 passed=0 as=

fail() {
    echo "$suite: $*" >&2
    sed 's/^/    out: /' out >&2
    sed 's/^/    err: /' err >&2
    failed=$((failed + 1))
}

# run EXIT ARGUMENT ...: the command must end so; out and err are kept.
run() {
    wanted=$1
    shift
    # shellcheck disable=SC2086 # $as is several words
    timeout 60 $as "$program" "$@" >out 2>err </dev/null
    code=$?
    last=$*
    if [ "$code" -eq "$wanted" ]; then
        passed=$((passed + 1))
    else
        fail "'$last' ended with $code, not $wanted"
    fi
}

# says PATTERN, prints PATTERN: of the last command's errors and results.
says() { grep -Eq -- "$1" err || fail "'$last' does not say: $1"; }
prints() { grep -Eq -- "$1" out || fail "'$last' does not print: $1"; }
silent() { [ ! -s out ] || fail "'$last' prints something"; }
last_says() {
    tail -n 1 err | grep -Eq -- "$1" || fail "'$last' does not end with: $1"
}

# wait_until COMMAND ...: at most 20 s. False: it did not come true.
wait_until() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || return 1
        sleep 0.1
    done
}
