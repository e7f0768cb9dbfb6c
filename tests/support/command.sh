# Helpers of the tests of commands, which source this file from the root of the
# tree. From then on they are in a new folder, $dir, without the environment that
# the program reads. $suite is the test's name, $program the program, and $as a
# command that runs the program as another user (empty: none). The results are
# counted in $passed and $failed.
# shellcheck shell=sh disable=SC2034,SC2154 # the names above are the test's
failed=0 passed=0 as=
dir=$(mktemp -d "${TMPDIR:-/tmp}/tableward-$suite.XXXXXX") || exit 1
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1
unset AZURE_STORAGE_CONNECTION_STRING TABLEWARD_CONFIG STATE_DIRECTORY \
    CREDENTIALS_DIRECTORY NOTIFY_SOCKET

fail() {
    echo "$suite: $*" >&2
    sed 's/^/    out: /' out >&2
    sed 's/^/    err: /' err >&2
    failed=$((failed + 1))
}

# run EXIT ARGUMENT ...: runs the program, which must exit with EXIT. Its output
# is kept in the files out and err.
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

# says PATTERN: err, as the last command wrote it, must contain PATTERN.
# prints PATTERN: the same for out. silent: out must be empty.
# last_says PATTERN: the last line of err must contain PATTERN.
says() { grep -Eq -- "$1" err || fail "'$last' does not say: $1"; }
prints() { grep -Eq -- "$1" out || fail "'$last' does not print: $1"; }
silent() { [ ! -s out ] || fail "'$last' prints something"; }
last_says() {
    tail -n 1 err | grep -Eq -- "$1" || fail "'$last' does not end with: $1"
}

# wait_until COMMAND ...: repeats COMMAND until it succeeds, for at most 20 s.
# False: it has not succeeded.
wait_until() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || return 1
        sleep 0.1
    done
}
