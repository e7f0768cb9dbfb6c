#!/bin/sh
# Tests what `make install` installs (program, units, manual and configuration,
# each with its mode and its paths), whether systemd accepts the units, whether
# the program loads every shipped configuration, and what `make uninstall`
# leaves.
#
#   tests/install.sh [MAKE VARIABLE=VALUE ...]   from the root of the tree
set -u
failed=0
top=$(pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/tableward-install.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "install: $*" >&2
    failed=1
}

# made TARGET ROOT [VARIABLE=VALUE ...]: makes install or uninstall below ROOT.
made() {
    target=$1 root=$2
    shift 2
    ${MAKE:-make} -s "$target" DESTDIR="$root" "$@" >"$dir/output" 2>&1 || {
        cat "$dir/output" >&2
        fail "make $target failed ($*)"
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
    made install "$dir/local" "$@"
    share=$dir/local/usr/local/share
    units=$dir/local/usr/local/lib/systemd/system
    expect_mode 755 "$dir/local/usr/local/bin/tableward"
    expect_mode 644 "$dir/local/etc/tableward/tableward.yaml"
    for file in "$units/tableward.service" "$units/tableward@.service" \
        "$units/tableward-status.timer" "$units/tableward-run@.service" \
        "$share/man/man1/tableward.1" "$share/man/man5/tableward.yaml.5" \
        "$share/bash-completion/completions/tableward" \
        "$share/zsh/site-functions/_tableward" \
        "$share/fish/vendor_completions.d/tableward.fish" \
        "$share/doc/tableward/README.md" "$share/doc/tableward/jobs/GUIDE.md" \
        "$share/doc/tableward/config/tableward.yaml" \
        "$share/doc/tableward/config/examples/minimal.yaml" \
        "$share/doc/tableward/systemd/RUNBOOK.md" \
        "$share/doc/tableward/systemd/alerts.yaml" \
        "$share/doc/tableward/systemd/grafana-dashboard.json" \
        "$share/doc/tableward/systemd/no-network.conf"; do
        expect_mode 644 "$file"
    done
    for file in systemd/*.service systemd/*.timer; do
        cmp "$file" "$units/$(basename "$file")" ||
            fail "$file is not the one of the default PREFIX"
    done
    left=$(find "$dir/local" -type f ! -perm 644 ! -path '*/bin/tableward')
    [ -z "$left" ] || fail "other modes: $left"
}

# The worker serves no queue before its owner has configured one.
the_installed_configuration_serves_nothing() {
    config=$dir/local/etc/tableward/tableward.yaml
    program=$dir/local/usr/local/bin/tableward
    mkdir "$dir/state"
    STATE_DIRECTORY=$dir/state "$program" --config "$config" check \
        >"$dir/output" 2>&1 || fail "it is wrong: $(cat "$dir/output")"
    grep -q '0 queues, 0 jobs' "$dir/output" ||
        fail "it has queues or jobs: $(cat "$dir/output")"
    STATE_DIRECTORY=$dir/state "$program" --config "$config" worker --drain \
        >"$dir/output" 2>&1 || fail "no worker: $(cat "$dir/output")"
    grep -q 'receives no messages' "$dir/output" ||
        fail "the worker does not say so: $(cat "$dir/output")"
}

a_configuration_that_is_there_stays() {
    echo '# mine' >"$dir/local/etc/tableward/tableward.yaml"
    chmod 600 "$dir/local/etc/tableward/tableward.yaml"
    made install "$dir/local" "$@"
    expect_line "$dir/local/etc/tableward/tableward.yaml" '# mine'
    expect_mode 600 "$dir/local/etc/tableward/tableward.yaml"
}

the_unit_names_prefix_and_sysconfdir() {
    made install "$dir/usr" "$@" PREFIX=/usr
    unit=$dir/usr/usr/lib/systemd/system/tableward.service
    expect_line "$unit" 'ExecStart=/usr/bin/tableward --config /etc/tableward/tableward.yaml worker'
    expect_mode 755 "$dir/usr/usr/bin/tableward"
    made install "$dir/opt" "$@" PREFIX=/opt/tw SYSCONFDIR=/opt/tw/etc
    unit=$dir/opt/opt/tw/lib/systemd/system/tableward.service
    expect_line "$unit" 'ExecStart=/opt/tw/bin/tableward --config /opt/tw/etc/tableward/tableward.yaml worker'
    expect_line "$unit" 'LoadCredential=storage:/opt/tw/etc/tableward/storage'
    expect_line "$unit" 'ExecReload=/opt/tw/bin/tableward --config /opt/tw/etc/tableward/tableward.yaml check'
    for unit in "$dir"/opt/opt/tw/lib/systemd/system/*; do
        grep -v '^#' "$unit" | grep -E '/usr/local/|[:= -]/etc/' &&
            fail "$unit names other places"
    done
    expect_mode 644 "$dir/opt/opt/tw/etc/tableward/tableward.yaml"
}

# settings UNIT: prints the lines of the unit without comments.
settings() { grep -v -e '^#' -e '^$' "$1"; }

# The template is the unit with other names, so that one explains both.
the_template_is_the_unit() {
    settings systemd/tableward.service | sed -e '/^User=/d' \
        -e 's|tableward/tableward.yaml|tableward/%i.yaml|' \
        -e 's|tableward/storage|tableward/%i.storage|' \
        -e 's|^StateDirectory=tableward|&-%i|' \
        -e 's|^Description=tableward|& %i|' >"$dir/expected"
    settings systemd/tableward@.service | diff "$dir/expected" - >&2 ||
        fail "tableward@.service is not tableward.service with other names"
}

# Units that are started now and then have the same user, folder and confinement
# as the service.
other_units_are_confined_alike() {
    settings systemd/tableward.service |
        sed -n '/^User=/,/^SystemCallErrorNumber=/p' | grep -v AmbientCap \
        >"$dir/expected"
    [ "$(wc -l <"$dir/expected")" -gt 25 ] || fail "the unit confines nothing"
    for unit in systemd/tableward-status.service \
        systemd/tableward-run@.service; do
        settings "$unit" | sed -n '/^User=/,/^SystemCallErrorNumber=/p' |
            diff "$dir/expected" - >&2 ||
            fail "$unit is not confined as the service"
    done
}

# systemd looks for the program of ExecStart on this machine: give it one.
systemd_accepts_the_units() {
    command -v systemd-analyze >/dev/null || {
        echo "skipped: no systemd-analyze"
        return
    }
    made install "" "$@" DESTDIR= PREFIX="$dir/here" SYSCONFDIR="$dir/etc"
    cd "$dir/here/lib/systemd/system" || return
    for unit in tableward.service tableward-status.service \
        tableward-status.timer tableward@one.service tableward-run@one.service \
        tableward-run@one.timer; do
        template=$(echo "$unit" | sed 's/@one/@/')
        [ "$unit" = "$template" ] || cp "$template" "$unit"
        said=$(systemd-analyze verify --man=no "./$unit" 2>&1) ||
            fail "systemd-analyze verify refuses $unit"
        said=$(printf '%s\n' "$said" | grep -F tableward)
        [ -z "$said" ] || fail "systemd-analyze verify says: $said"
        [ "$unit" = "$template" ] || rm "$unit"
    done
    cd "$top" || exit 1
}

# exposure UNIT MOST
exposure() {
    score=$(systemd-analyze security --offline=true --no-pager "$1" |
        sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
    echo "install: exposure level of $(basename "$1"): $score"
    awk -v score="${score:-10}" -v most="$2" 'BEGIN { exit !(score <= most) }' ||
        fail "the exposure level of $1 is '$score', over $2"
}

the_units_are_confined() {
    command -v systemd-analyze >/dev/null || return
    exposure systemd/tableward.service 1.1
    for unit in tableward@ tableward-run@; do
        cp "systemd/$unit.service" "$dir/${unit}one.service"
        exposure "$dir/${unit}one.service" 1.1
    done
    exposure systemd/tableward-status.service 1.1
    # Without a network, which an embedded store does not need.
    mkdir "$dir/quiet"
    { cat systemd/tableward.service && cat systemd/no-network.conf; } \
        >"$dir/quiet/tableward.service"
    exposure "$dir/quiet/tableward.service" 0.5
}

# The package has the version of the program.
the_package_has_the_program_s_version() {
    head -n 1 systemd/debian/changelog |
        grep -qF "tableward ($(cat worker/VERSION)) " ||
        fail "systemd/debian/changelog is not of version $(cat worker/VERSION)"
}

uninstall_leaves_only_what_is_the_owner_s() {
    made uninstall "$dir/usr" "$@" PREFIX=/usr
    left=$(find "$dir/usr" -type f)
    [ -z "$left" ] || fail "make uninstall leaves $left"
    left=$(find "$dir/usr" -type d -name tableward)
    [ -z "$left" ] || fail "make uninstall leaves $left"
    made uninstall "$dir/local" "$@"
    left=$(find "$dir/local" -type f)
    [ "$left" = "$dir/local/etc/tableward/tableward.yaml" ] ||
        fail "of a changed configuration make uninstall leaves: $left"
}

# Keys in comments are tested as well: the test removes the comment signs.
shipped_configurations_load() {
    program=$dir/local/usr/local/bin/tableward
    mkdir -p "$dir/config"
    cp config/tableward.yaml config/installed.yaml config/examples/*.yaml \
        "$dir/config/"
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
the_installed_configuration_serves_nothing
a_configuration_that_is_there_stays "$@"
the_unit_names_prefix_and_sysconfdir "$@"
the_template_is_the_unit
other_units_are_confined_alike
systemd_accepts_the_units "$@"
the_units_are_confined
the_package_has_the_program_s_version
shipped_configurations_load
uninstall_leaves_only_what_is_the_owner_s "$@"
[ "$failed" -eq 0 ] && echo "install: passed"
exit "$failed"
