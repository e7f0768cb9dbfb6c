#!/bin/sh
# What `make install` leaves behind: program, unit and configuration, each with
# its mode and its paths; the unit as systemd reads it; and every configuration
# that is shipped, loaded by the program itself.
#
#   tests/install.sh [MAKE VARIABLE=VALUE ...]   from the root of the tree
set -u
failed=0
dir=$(mktemp -d "${TMPDIR:-/tmp}/tableward-install.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "install: $*" >&2
    failed=1
}

# install_into ROOT [VARIABLE=VALUE ...]
install_into() {
    root=$1
    shift
    ${MAKE:-make} -s install DESTDIR="$root" "$@" >"$dir/output" 2>&1 || {
        cat "$dir/output" >&2
        fail "make install failed ($*)"
    }
}

# expect_mode MODE FILE
expect_mode() {
    mode=$(stat -c %a "$2" 2>/dev/null)
    [ "$mode" = "$1" ] || fail "$2 has mode ${mode:-none}, not $1"
}

# expect_line FILE LINE
expect_line() {
    grep -qxF -- "$2" "$1" || fail "$1 lacks the line: $2"
}

files_are_installed_with_their_modes() {
    install_into "$dir/local" "$@"
    expect_mode 755 "$dir/local/usr/local/bin/tableward"
    expect_mode 644 "$dir/local/usr/local/lib/systemd/system/tableward.service"
    expect_mode 644 "$dir/local/etc/tableward/tableward.yaml"
    for file in MONITORING.md alerts.yaml grafana-dashboard.json; do
        expect_mode 644 "$dir/local/usr/local/share/tableward/$file"
    done
    count=$(find "$dir/local" -type f | wc -l)
    [ "$count" -eq 6 ] || fail "$count files are installed, not 6"
    cmp systemd/tableward.service \
        "$dir/local/usr/local/lib/systemd/system/tableward.service" ||
        fail "the unit in the tree is not the one of the default PREFIX"
}

a_configuration_that_is_there_stays() {
    echo '# mine' >"$dir/local/etc/tableward/tableward.yaml"
    chmod 600 "$dir/local/etc/tableward/tableward.yaml"
    install_into "$dir/local" "$@"
    expect_line "$dir/local/etc/tableward/tableward.yaml" '# mine'
    expect_mode 600 "$dir/local/etc/tableward/tableward.yaml"
}

the_unit_names_prefix_and_sysconfdir() {
    install_into "$dir/usr" "$@" PREFIX=/usr
    unit=$dir/usr/usr/lib/systemd/system/tableward.service
    expect_line "$unit" 'ExecStart=/usr/bin/tableward --config /etc/tableward/tableward.yaml worker'
    expect_mode 755 "$dir/usr/usr/bin/tableward"
    install_into "$dir/opt" "$@" PREFIX=/opt/tw SYSCONFDIR=/opt/tw/etc
    unit=$dir/opt/opt/tw/lib/systemd/system/tableward.service
    expect_line "$unit" 'ExecStart=/opt/tw/bin/tableward --config /opt/tw/etc/tableward/tableward.yaml worker'
    expect_line "$unit" 'LoadCredential=storage:/opt/tw/etc/tableward/storage'
    expect_mode 644 "$dir/opt/opt/tw/etc/tableward/tableward.yaml"
}

# systemd looks for the program of ExecStart on this machine: give it one.
systemd_accepts_the_unit() {
    command -v systemd-analyze >/dev/null || {
        echo "skipped: no systemd-analyze"
        return
    }
    install_into "" "$@" DESTDIR= PREFIX="$dir/here" SYSCONFDIR="$dir/etc"
    unit=$dir/here/lib/systemd/system/tableward.service
    said=$(systemd-analyze verify --man=no "$unit" 2>&1) ||
        fail "systemd-analyze verify refuses the unit"
    said=$(printf '%s\n' "$said" | grep -F tableward)
    [ -z "$said" ] || fail "systemd-analyze verify says: $said"
}

the_unit_is_confined() {
    command -v systemd-analyze >/dev/null || return
    score=$(systemd-analyze security --offline=true --no-pager \
        systemd/tableward.service |
        sed -n 's/.*exposure level for tableward.service: \([0-9.]*\) .*/\1/p')
    case $score in
    0.* | 1.0 | 1.1 | 1.2) ;;
    *) fail "the exposure level is '$score', over 1.2" ;;
    esac
}

# The commented keys are switched on as well, so that they cannot rot.
shipped_configurations_load() {
    program=$dir/local/usr/local/bin/tableward
    mkdir -p "$dir/config"
    cp config/tableward.yaml config/examples/*.yaml "$dir/config/"
    sed 's/^\( *\)#\([a-z_]*:\)/\1\2/' config/tableward.yaml \
        >"$dir/config/everything.yaml"
    [ "$(grep -c '' "$dir/config/everything.yaml")" -gt 100 ] ||
        fail "config/tableward.yaml is not the manual any more"
    cmp -s config/tableward.yaml "$dir/config/everything.yaml" &&
        fail "config/tableward.yaml has no commented keys"
    for file in "$dir"/config/*.yaml; do
        CREDENTIALS_DIRECTORY=$dir STATE_DIRECTORY=$dir \
            "$program" --config "$file" check >"$dir/output" 2>&1 || {
            cat "$dir/output" >&2
            fail "$(basename "$file") does not load"
        }
    done
}

files_are_installed_with_their_modes "$@"
a_configuration_that_is_there_stays "$@"
the_unit_names_prefix_and_sysconfdir "$@"
systemd_accepts_the_unit "$@"
the_unit_is_confined
shipped_configurations_load
[ "$failed" -eq 0 ] && echo "install: passed"
exit "$failed"
