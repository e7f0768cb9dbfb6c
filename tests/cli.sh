#!/bin/sh
# Tests what a user may type: exit codes, messages and results of every command,
# on an embedded store in a folder of its own.
#
#   tests/cli.sh [PROGRAM] [CASE ...]   from the root of the tree
#
# PROGRAM: a path with a /; default build/tableward. CASE: one of the functions
# below; it is run after the cases that create what it needs (cases(), at the
# end). Without a CASE all are run, in one folder, one after another.
set -u
suite=cli tests=$(readlink -f tests)
case ${1:-} in
*/*) given=$1 && shift ;;
*) given=${TABLEWARD:-build/tableward} ;;
esac
program=$(readlink -f "$given") || exit 1
promtool=${PROMTOOL:-$(command -v promtool ||
    echo "$tests/../build/promtool/promtool")}
# shellcheck source=tests/support/command.sh
. "$tests/support/command.sh"

blogs() { # blogs CHANNEL COUNT
    i=0
    while [ "$i" -lt "$2" ]; do
        echo "{\"PartitionKey\":\"$1\",\"RowKey\":\"b$i\",\"Views@odata.type\":\"Edm.Int64\",\"Views\":\"$i\"}"
        i=$((i + 1))
    done
}

# wait_for PATTERN FILE: waits until a line of the file matches, at most 20 s.
wait_for() {
    wait_until grep -q "$1" "$2" || fail "it does not say: $1"
}

# Waits until the process handles SIGTERM itself; before that, SIGTERM kills it.
wait_for_handler() {
    # The lowest 16 bits of the set of blocked signals. SIGTERM, number 15, is
    # blocked, so that a thread can wait for it.
    wait_until grep -Eq '^SigBlk:.*[4-7c-f][0-9a-f]{3}$' "/proc/$1/status" ||
        fail "SIGTERM is not taken"
}

usage_is_64_and_names_the_nearest() {
    run 64
    says 'command is missing'
    run 64 satus
    says "unknown command 'satus', did you mean 'status'"
    run 64 count Blogs --strore main
    says "did you mean '--store'"
    run 64 count Blogs --drain
    says "count has no option '--drain'"
    run 64 worker --drain=yes
    says 'takes no value'
    run 64 count Blogs --filter
    says '--filter needs a value'
    run 64 count
    says 'needs TABLE'
    run 64 jobs a b
    says "'b'"
    run 64 help wrker
    says "did you mean 'worker'"
    run 64 version --log-level loud
    says 'debug'
    run 64 poison lst
    says "did you mean 'list'"
    run 64 poison show
    says 'needs an ID'
}

help_is_everywhere() {
    run 0 --help
    prints 'Exit codes'
    run 0 -h worker
    prints '--drain'
    run 0 import --help
    prints '--on-conflict'
    run 0 help export
    prints '--select'
    run 0 --version
    prints '^tableward [0-9]'
    run 0 version
    prints '^tableward [0-9]'
}

help_says_what_a_configuration_may_hold() {
    run 0 help config
    prints '^worker:$'
    prints '^  visibility_timeout '
    sed -n '/^Kinds of job/,$s/^  \([a-z-]*\) .*/\1/p' out >kinds
    [ "$(wc -l <kinds)" -ge 5 ] || fail "help config lists no kinds"
    while read -r kind; do
        run 0 help "$kind"
        prints '^  kind '
        prints 'required$'
        prints '^  failures '
    done <kinds
    run 0 help schema-upgrade
    prints 'all, expand, contract \(default: all\)'
    run 0 help config slots
    prints 'a whole number, from 1 to 256; default: 16'
    [ "$(grep -c '^  slots ' out)" -eq 2 ] || fail "a key of two maps came once"
    run 64 help config slotz
    says "no map of a configuration has the key 'slotz'"
    run 64 help worker slots
    says 'help worker takes no further argument'
}

no_configuration_is_78() {
    run 78 status
    says 'no configuration'
    silent
    run 78 check --config nowhere.yaml
    says 'nowhere.yaml cannot be read: No such file'
    run 78 check --config /
    says 'Is a directory'
}

init_writes_what_works() {
    run 0 init
    run 1 init
    says 'exists already'
    run 0 check
    prints 'is valid'
    run 1 check --online
    prints 'does not exist yet'
    says 'table Channels does not exist, and a job needs it'
    says 'table Blogs does not exist, and a job needs it'
    [ ! -e tableward.db ] || fail "check makes the file of the store"
    run 0 status --json
    prints '^\[\]$'
    [ ! -e tableward.db ] || fail "status makes the file of the store"
    run 0 jobs
    prints '^delete-channel channel='
    run 0 jobs delete-channel
    prints 'Blogs'
    run 64 jobs delete-chanel
    says "did you mean 'delete-channel'"
}

check_online_wants_what_the_jobs_need() {
    cat >needs.yaml <<'YAML'
stores:
  main: {embedded: needs.db}
default_store: main
worker: {store: main, queues: [{name: work}]}
jobs:
  delete-channel:
    kind: cascade-delete
    args: [channel]
    archive: kept
    failures: failed
    parent: {table: Channels, partition_key: "{channel}", row_key: "{channel}",
             tombstone: {Deleted: true}}
    children:
      - {table: Blogs, partition_key: "{channel}"}
      - {table: Likes, partition_key: "{channel}", optional: true}
  backup: {kind: copy, from: {table: Blogs}, to: {table: Copies}}
  again: {kind: copy, from: {table: Copies}, to: {table: Others}}
YAML
    echo '{"PartitionKey":"p","RowKey":"r"}' >one.jsonl
    run 0 import Blogs one.jsonl --config needs.yaml
    run 1 check --online --config needs.yaml
    says 'table Channels does not exist, and a job needs it'
    says 'table Copies does not exist, and a job needs it'
    [ "$(grep -vc ': warning: ' err)" = 2 ] ||
        fail "more than two tables are missed"
    prints 'table Likes: does not exist yet'
    prints 'table Others: does not exist yet'
    run 0 import Channels one.jsonl --config needs.yaml
    run 0 run backup --yes --config needs.yaml
    run 0 check --online --config needs.yaml
    grep -v ': warning: ' err && fail "something is missed still"
    [ ! -e kept ] || fail "check makes the archive's folder"
    echo >kept
    run 1 check --online --config needs.yaml
    says 'job delete-channel: archive: .*kept is not a folder'
}

# The default store was changed, and the ledger stays in the former one. A
# second name of the ledger's file does not count as another ledger.
check_online_finds_a_ledger_left_behind() {
    cat >ledgers.yaml <<'YAML'
stores: {main: {embedded: ledger.db}, same: {embedded: ./ledger.db}, second: {embedded: second.db}}
default_store: main
jobs: {again: {kind: copy, from: {table: Blogs}, to: {table: Copies}}}
YAML
    echo '{"PartitionKey":"p","RowKey":"r"}' >one.jsonl
    run 0 import Blogs one.jsonl --config ledgers.yaml
    run 0 import Blogs one.jsonl --store second --config ledgers.yaml
    run 0 run again --yes --config ledgers.yaml
    run 0 check --online --config ledgers.yaml
    grep 'has a ledger too' err && fail "the ledger counts as another one"
    sed 's/default_store: main/default_store: second/' ledgers.yaml >new.yaml
    run 0 check --online --config new.yaml
    says 'warning: store main has a ledger too .table TablewardRuns., .* ledger in store second'
    says 'warning: store same has a ledger too'
}

# Commands inside and outside of a time namespace use one file by turns.
a_time_namespace_moves_no_clock() {
    if ! unshare -T --boottime 1000000 true 2>/dev/null; then
        echo "skipped: a_time_namespace_moves_no_clock: none can be made here"
        return
    fi
    for turn in 1 2 3 4 5 6; do
        echo "{\"PartitionKey\":\"p\",\"RowKey\":\"$turn\"}" >turn.jsonl
        ahead=$((turn % 2 * 1000000))
        unshare -T --boottime $ahead "$program" import Turns turn.jsonl \
            --config needs.yaml >out 2>err || fail "turn $turn ends with $?"
    done
    run 1 check --online --config needs.yaml
    ! grep -q "the store's clock is" out || fail "the clock has moved"
}

every_mistake_is_said_at_once() {
    cat >wrong.yaml <<'YAML'
stores:
  main: {embedded: t.db, colour: red}
  cloud:
    azure: {connection_string: "${NOT_SET_ANYWHERE}"}
worker: {slts: 4, queues: [{name: one, job: a, body: b, encoding: text}]}
jobs:
  a: {kind: cascade-delte}
YAML
    run 78 check --config wrong.yaml
    silent
    says '^wrong.yaml:1:1: .*default_store'
    says '^wrong.yaml:2:[0-9]+: .*colour'
    says '^wrong.yaml:4:[0-9]+: .*NOT_SET_ANYWHERE'
    says "^wrong.yaml:5:[0-9]+: .*'slots'"
    says "^wrong.yaml:7:[0-9]+: .*'cascade-delete'"
    grep -q "unknown job 'a'" err && fail "a job with mistakes is unknown"
}

an_unset_variable_counts_where_it_is_needed() {
    cat >unset.yaml <<'YAML'
default_store: main
stores:
  main: {embedded: t.db}
  cloud:
    azure: {connection_string: "${NOT_SET_ANYWHERE}"}
YAML
    run 0 status --config unset.yaml
    run 78 count Blogs --store cloud --config unset.yaml
    says '^unset.yaml:5:[0-9]+: .*NOT_SET_ANYWHERE'
    run 78 check --config unset.yaml
    run 64 count Blogs --store clod --config unset.yaml
    says "did you mean 'cloud'"
}

a_variable_that_holds_nothing_selects_nothing() {
    cat >nothing.yaml <<'YAML'
stores:
  main: {embedded: nothing.db}
jobs:
  purge:
    kind: delete
    table: Blogs
    filter: "${WHICH_GO}"
YAML
    export WHICH_GO=' '
    run 78 check --config nothing.yaml
    says '^nothing.yaml:7:[0-9]+: this filter is empty'
    run 78 run purge --yes --config nothing.yaml
    says '^nothing.yaml:7:[0-9]+: this filter is empty'
    unset WHICH_GO
    run 78 run purge --yes --config nothing.yaml
    says 'job purge needs the environment variable WHICH_GO'
    run 0 enqueue purge --config nothing.yaml
}

# In another folder the same configuration means another store. A command that
# is not run in the service's folder puts its message into a store that no
# worker serves.
enqueue_names_the_file_that_it_makes() {
    mkdir elsewhere
    run 0 enqueue delete-channel channel=z --queue tableward
    says "^tableward: store main: created the new file $dir/tableward\.db$"
    run 0 enqueue delete-channel channel=y --queue tableward
    [ ! -s err ] || fail "a file that is there is called new"
    STATE_DIRECTORY=$dir/elsewhere
    export STATE_DIRECTORY
    run 0 enqueue delete-channel channel=z --queue tableward
    says "store main: created the new file $dir/elsewhere/tableward\.db$"
    unset STATE_DIRECTORY
    rm -f tableward.db*
}

import_and_export_are_inverse() {
    { blogs a 150 && blogs b 50; } >blogs.jsonl
    run 0 import Blogs blogs.jsonl
    run 0 import Blogs blogs.jsonl
    run 0 count Blogs
    prints '^200$'
    run 0 count Blogs --filter 'Views ge 100L'
    prints '^50$'
    run 64 count Blogs --filter 'Views ge'
    says 'column'
    run 1 count Blog
    says "did you mean 'Blogs'"
    run 0 export Blogs all.jsonl
    silent
    sort blogs.jsonl >wanted
    sort all.jsonl | cmp -s - wanted || fail "export is not what was imported"
    run 0 export Blogs --select Views --filter "RowKey eq 'b7'"
    prints '^\{"PartitionKey":"a","RowKey":"b7","Views@odata.type":"Edm.Int64","Views":"7"\}$'
    "$program" export Blogs - 2>err | "$program" import Copy - 2>err ||
        fail "export does not go into import by a pipe"
    run 0 count Copy
    prints '^200$'
    find . -name '*.part' | grep -q . && fail "export leaves its part behind"
}

every_type_comes_back_as_it_was() {
    cat >types.jsonl <<'JSON'
{"PartitionKey":"a'b","RowKey":"","B@odata.type":"Edm.Binary","B":"AAEC","D@odata.type":"Edm.DateTime","D":"2024-02-29T23:59:59.1234567Z","F@odata.type":"Edm.Double","F":1.0,"G@odata.type":"Edm.Guid","G":"00000000-0000-0000-0000-000000000001","I":-5,"L@odata.type":"Edm.Int64","L":"-9223372036854775808","N@odata.type":"Edm.Double","N":"NaN","S":"","T":true,"U":"😀\u0001"}
JSON
    run 0 import Types types.jsonl
    run 0 export Types types2.jsonl
    cmp -s types.jsonl types2.jsonl || fail "types changed: $(cat types2.jsonl)"
}

one_content_gives_one_file() {
    cat >spelled.jsonl <<'JSON'
{"RowKey":"","U":"\uD83D\uDE00\u0001","T":true,"S":"","N@odata.type":"Edm.Double","N":"NaN","L":"-9223372036854775808","L@odata.type":"Edm.Int64","I":-5,"G@odata.type":"Edm.Guid","G":"00000000-0000-0000-0000-000000000001","F@odata.type":"Edm.Double","F":1e0,"D@odata.type":"Edm.DateTime","D":"2024-02-29T23:59:59.1234567Z","B@odata.type":"Edm.Binary","B":"AAEC","PartitionKey":"a'b"}
JSON
    run 0 import Spelled spelled.jsonl
    run 0 export Spelled types2.jsonl --force
    cmp -s types.jsonl types2.jsonl || fail "spelled: $(cat types2.jsonl)"
}

# A limit of the file size ends the export by a signal, in the middle of a line.
an_export_with_an_id_continues() {
    run 0 import Long titles.jsonl
    run 0 export Long whole.jsonl
    run 64 export Long --id e1
    says 'needs a FILE'
    run 64 export Long cut.jsonl --id ../e1
    (
        ulimit -f 80
        "$program" export Long cut.jsonl --id e1 >out 2>err </dev/null
        true # so that this subshell stays, and discards the shell's message
    ) 2>/dev/null
    [ ! -e cut.jsonl ] || fail "an export that was killed is there"
    part=$(find . -name 'cut.jsonl.e1-*.part')
    [ -s "$part" ] || fail "an export that was killed leaves no part"
    run 64 export Long cut.jsonl --id e1 --filter "Title eq '1'"
    says 'e1 belongs to another export'
    run 0 export Long cut.jsonl --id e1
    says 'continuing after .a. / '
    says '1,001 entities exported to cut.jsonl'
    cmp -s whole.jsonl cut.jsonl || fail "an export that goes on is another"
    [ ! -e "$part" ] || fail "the part of an export that ended is there"
    # Data that a power cut has lost may read as NULs.
    { head -n 10 whole.jsonl && head -c 512 /dev/zero && echo; } >"$part"
    run 0 export Long cut.jsonl --id e1 --force
    says 'entities in the file: 10$'
    cmp -s whole.jsonl cut.jsonl || fail "an export after a power cut is another"
    echo 'mine' >"$part"
    run 1 export Long cut.jsonl --id e1 --force
    says 'is not a partial export'
}

# Exported entities and rejected lines may be secret.
a_new_file_is_readable_by_its_owner_alone() {
    rm -f new.jsonl
    run 0 export Blogs new.jsonl
    [ "$(stat -c %a new.jsonl)" = 600 ] || fail "the mode of an export"
    ln -s nowhere-yet.jsonl dangling.jsonl
    run 64 export Blogs dangling.jsonl
    [ -e nowhere-yet.jsonl ] && fail "a link is followed without --force"
    run 0 export Blogs dangling.jsonl --force
    echo no >new.jsonl
    run 1 import Blogs new.jsonl --on-error skip
    [ "$(stat -c %a new.jsonl.rejected)" = 600 ] || fail "the mode of rejects"
}

# A user who could not read the replaced file cannot read the new one.
an_export_keeps_the_mode_and_the_link_of_what_it_replaces() {
    mkdir far
    : >far/kept.jsonl
    chmod 600 far/kept.jsonl
    ln -s far/kept.jsonl kept-link.jsonl
    for id in '' '--id k1'; do
        # shellcheck disable=SC2086
        run 64 export Blogs kept-link.jsonl $id
        last_says 'kept-link.jsonl exists: --force replaces it'
        [ -s far/kept.jsonl ] && fail "a file is replaced without --force"
        [ "$(ls far)" = kept.jsonl ] || fail "something is beside the file"
        # shellcheck disable=SC2086
        run 0 export Blogs kept-link.jsonl --force $id
        [ -h kept-link.jsonl ] || fail "the link is no link any more"
        [ "$(stat -c %a far/kept.jsonl)" = 600 ] || fail "the mode is another"
        [ "$(wc -l <far/kept.jsonl)" -eq 200 ] || fail "the export is not there"
        [ "$(ls far)" = kept.jsonl ] || fail "something is beside the export"
        : >far/kept.jsonl
    done
}

# Such a file is refused in whatever way it is named, and also if the command
# uses another store.
a_file_of_a_store_is_no_file_to_write() {
    ln -s tableward.db alias.db
    : >nothing.db
    sed 's/^stores:/&\n  other: {embedded: nothing.db}/' tableward.yaml >two.yaml
    cksum tableward.db two.yaml >before
    for file in tableward.db ./alias.db tableward.db-wal two.yaml nothing.db; do
        run 64 export Blogs "$file" --config two.yaml
        says "$file is the configuration, or belongs to one of its stores"
        run 64 export Blogs "$file" --id x --config two.yaml
        run 64 import Blogs blogs.jsonl --on-error skip --rejected "$file" \
            --config two.yaml
        says "$file is the configuration, or belongs to one of its stores"
        run 64 import Blogs "$file" --config two.yaml
    done
    cksum tableward.db two.yaml | cmp -s - before ||
        fail "a file of a store is written over"
    [ -e nothing.db ] || fail "a file of a store is removed"
}

# The second host is a private endpoint, a custom domain or an IP address of the
# account.
check_warns_of_one_account_under_two_hosts() {
    key=$(printf '%064d' 0 | base64 -w0)
    account() { # account NAME HOST
        echo "AccountName=$1;AccountKey=$key;TableEndpoint=https://$2"
    }
    printf '%s\n' 'default_store: main' 'stores:' \
        '  main: {embedded: m.db}' \
        "  public: {azure: {connection_string: '$(account acct acct.table.core.windows.net)'}}" \
        "  same: {azure: {connection_string: '$(account acct ACCT.table.core.windows.net:443)'}}" \
        "  other: {azure: {connection_string: '$(account other other.table.core.windows.net)'}}" \
        'worker: {queues: []}' >hosts.yaml
    run 0 check --config hosts.yaml
    ! grep -q AccountName err || fail "one host is taken for two"
    sed "s,^  other.*,&\n  private: {azure: {connection_string: '$(account Acct tables.example.org)'}}," \
        hosts.yaml >more.yaml
    run 0 check --config more.yaml
    says 'more.yaml:[0-9]+:[0-9]+: .*stores public and private have the same AccountName, acct'
    [ "$(grep -c warning err)" = 1 ] || fail "other stores are named"
}

# Under each name SQLite would keep a log of its own, and the logs would
# overwrite each other's pages. A worker that has the file open meanwhile loses
# nothing.
a_store_file_with_two_hard_links_is_refused() {
    mkdir linked
    printf '%s\n' 'stores: {main: {embedded: main.db}}' \
        'worker: {queues: [{name: linked}]}' >linked/t.yaml
    sed 's/main\.db/link.db/' linked/t.yaml >linked/u.yaml
    printf '%s\n' 'stores:' '  one: {embedded: main.db}' \
        '  two: {embedded: link.db}' 'default_store: two' >linked/both.yaml
    run 0 import Blogs blogs.jsonl --config linked/t.yaml
    "$program" worker --config linked/t.yaml >linked/out 2>linked/log &
    worker=$!
    wait_for 'ready: ' linked/log
    ln linked/main.db linked/link.db
    for name in t u both; do
        for command in 'import Blogs blogs.jsonl --on-conflict skip' \
            'count Blogs' status 'check --online' worker; do
            [ "$name $command" = 'both worker' ] && continue
            # shellcheck disable=SC2086
            run 78 $command --config linked/$name.yaml
            says "$name.yaml:[0-9]+:[0-9]+: store .*(main|link).db: the file has 2 hard links"
        done
    done
    [ ! -e linked/link.db-wal ] || fail "the second name has a log"
    kill "$worker"
    wait "$worker" || fail "a worker whose file gets a link ends with $?"
    rm linked/link.db
    run 0 count Blogs --config linked/t.yaml
    prints "^$(wc -l <blogs.jsonl)\$"
    # A symbolic link does not count as a second name, even if one configuration
    # has both names.
    ln -s main.db linked/link.db
    run 0 check --online --config linked/both.yaml
    run 0 import Blogs blogs.jsonl --on-conflict skip --config linked/u.yaml
}

# Locks, intents and the marks of copies name a file by its identity, and a copy
# of the file has the same identity. The command that gives a copy another one
# is in systemd/BACKUP.md.
a_copy_of_a_store_file_is_refused_beside_it() {
    mkdir copied
    printf '%s\n' 'stores:' '  main: {embedded: main.db}' \
        '  backup: {embedded: backup.db}' 'default_store: main' \
        'worker: {queues: []}' 'jobs:' \
        '  restore: {kind: move, from: {store: backup, table: Blogs}, to: {table: Back}}' \
        >copied/t.yaml
    run 0 import Blogs blogs.jsonl --config copied/t.yaml
    sqlite3 copied/main.db "VACUUM INTO 'copied/backup.db'"
    for command in 'run restore --yes' 'run restore --dry-run' 'verify restore' \
        'check --online' 'worker --drain'; do
        # shellcheck disable=SC2086
        run 78 $command --config copied/t.yaml
        says 't.yaml:[0-9]+:[0-9]+: store .*(main|backup).db .*have the same identity'
        says 'sqlite3 COPY "UPDATE identity SET id = lower'
    done
    # Each of the two can be used alone.
    run 0 count Blogs --store backup --config copied/t.yaml
    prints "^$(wc -l <blogs.jsonl)\$"
    command=$(sed -n 's/^sqlite3 "\$COPY" //p' "$tests/../systemd/BACKUP.md")
    eval "sqlite3 copied/backup.db $command" ||
        fail "the command of BACKUP.md fails: $command"
    run 0 check --online --config copied/t.yaml
    run 0 run restore --yes --config copied/t.yaml
    run 0 count Blogs --config copied/t.yaml
    prints "^$(wc -l <blogs.jsonl)\$"
    run 0 count Back --config copied/t.yaml
    prints "^$(wc -l <blogs.jsonl)\$"
}

# `docker run -v /data/main.db:/app/main.db` mounts the file alone; the option
# `-v /data:/app` mounts its folder, which is right.
a_store_file_that_is_mounted_alone_is_refused() {
    if ! unshare -r -m true 2>/dev/null; then
        echo "skipped: a_store_file_that_is_mounted_alone_is_refused: no user" \
            "namespace can be created here"
        return
    fi
    mkdir mounted mounted/data mounted/app
    echo 'stores: {main: {embedded: main.db}}' >mounted/data/t.yaml
    cp mounted/data/t.yaml mounted/app
    run 0 import Blogs blogs.jsonl --config mounted/data/t.yaml
    : >mounted/app/main.db
    as="unshare -r -m sh mounted/in"
    echo "mount --bind mounted/data/main.db mounted/app/main.db &&" \
        'exec "$@"' >mounted/in
    for command in 'import Blogs blogs.jsonl' 'count Blogs' 'check --online'; do
        # shellcheck disable=SC2086
        run 78 $command --config mounted/app/t.yaml
        says 't.yaml:1:[0-9]+: store main: .*mounted/app/main.db: the file alone is mounted here'
    done
    echo 'mount --bind mounted/data mounted/app && exec "$@"' >mounted/in
    run 0 count Blogs --config mounted/app/t.yaml
    prints "^$(wc -l <blogs.jsonl)\$"
    as=
    [ ! -s mounted/app/main.db ] || fail "the mount outlives its namespace"
    [ ! -e mounted/app/main.db-wal ] || fail "the second name has a log"
}

# The import still waits for the header line of its CSV input.
an_import_that_waits_for_a_pipe_is_stopped() {
    mkfifo slow
    exec 3<>slow
    "$program" import Slow - --format csv >out 2>err <slow &
    import=$!
    wait_for_handler "$import"
    sleep 1
    kill -TERM "$import"
    wait "$import"
    [ $? -eq 75 ] || fail "an import that waits does not end with 75"
    exec 3>&-
}

# The pipe gets one record after the other, until the ledger says that some were
# stored.
an_import_continues_with_the_same_file_only() {
    mkfifo pipe
    "$program" import Piped pipe --id i1 >out 2>err </dev/null &
    import=$!
    exec 3>pipe
    number=100
    while [ "$number" -lt 200 ] &&
        ! "$program" status i1 --json 2>/dev/null |
        grep -Eq 'line[^0-9]*([2-9]|[1-9][0-9])' # more than one line
    do
        number=$((number + 1))
        echo "{\"PartitionKey\":\"a\",\"RowKey\":\"$number\"}" |
            tee -a piped.jsonl >&3
        sleep 0.2
    done
    kill -TERM "$import"
    wait "$import"
    [ $? -eq 75 ] || fail "an import that is stopped does not end with 75"
    exec 3>&-
    sed 's/101/100/' piped.jsonl >pipe &
    run 1 import Piped pipe --id i1
    last_says 'pipe: its first [0-9]+ lines have changed.*another id'
    head -n 1 piped.jsonl >pipe &
    run 1 import Piped pipe --id i1
    last_says 'have changed since this id stored them'
    { cat piped.jsonl && echo '{"PartitionKey":"b","RowKey":""}'; } >pipe &
    run 0 import Piped pipe --id i1
    says 'continuing after line [1-9]'
    run 0 count Piped
    prints "^$((number - 99))\$"
    # The count is over all processes with this id, and has each line once.
    run 0 status i1
    prints "^written +$((number - 99))\$"
}

a_census_is_exact() {
    cat >mixed.jsonl <<'JSON'
{"PartitionKey":"a","RowKey":"1","SchemaVersion":1,"Rating":"4"}
{"PartitionKey":"a","RowKey":"2","SchemaVersion@odata.type":"Edm.Int64","SchemaVersion":"1","Rating":4}
{"PartitionKey":"a","RowKey":"3","SchemaVersion":2,"Rating@odata.type":"Edm.Double","Rating":4.0}
{"PartitionKey":"b","RowKey":"4","Title":"the longest text of all"}
JSON
    run 0 import Mixed mixed.jsonl
    run 0 census Mixed --version-property SchemaVersion
    prints '^entities: 4$'
    prints "^largest:  76 bytes, PartitionKey 'b', RowKey '4'$"
    prints '^Rating +Edm.Double +1$'
    prints '^Rating +Edm.String +1$'
    prints '^SchemaVersion +Edm.Int32 +2$'
    prints '^1 +2$'
    prints '^2 +1$'
    prints '^\(absent\) +1$'
    run 0 census Mixed
    grep -Eq 'VERSION|absent' out && fail "census counts versions unasked"
    run 0 census Mixed --json --version-property=SchemaVersion
    tr -d '\n' <out >one
    mv one out
    prints '^\{"Table":"Mixed","Entities":4, "Largest":\{"PartitionKey":"b",'
    prints '\{"Name":"Rating","Edm.Double":1,"Edm.Int32":1,"Edm.String":1\}'
    prints '"Versions":\[\{"Version":1,"Entities":2\}, +\{"Version":2,'
    prints '\{"Version":null,"Entities":1\}\]\}$'
    run 0 census Mixed --filter 'SchemaVersion eq 2'
    prints '^entities: 1$'
    run 0 census Blogs
    prints '^Views +Edm.Int64 +200$'
}

a_census_refuses_what_it_cannot_count() {
    run 1 census Mixd
    silent
    says "did you mean 'Mixed'"
    run 64 census
    says 'needs TABLE'
    run 64 census Mixed --version-property 'Schema-Version'
    says "--version-property: invalid property name 'Schema-Version'"
    run 64 census Mixed --version-property RowKey
    says 'RowKey cannot hold a version'
    run 64 census Mixed --filter 'Rating eq'
    says 'column'
    run 64 census Mixed --version-propery V
    says "did you mean '--version-property'"
    i=0
    while [ "$i" -le 1000 ]; do
        echo "{\"PartitionKey\":\"a\",\"RowKey\":\"$i\",\"Title\":\"$i\"}"
        i=$((i + 1))
    done >titles.jsonl
    run 0 import Titles titles.jsonl
    run 1 census Titles --version-property Title
    silent
    last_says "'Title' has more than 1000 different values"
}

import_says_which_line() {
    printf '%s\n' '{"PartitionKey":"a","RowKey":"1","X":1}' 'no' '' \
        '{"PartitionKey":"a/b","RowKey":"1"}' '{"PartitionKey":"a"}' \
        '{"PartitionKey":"a","RowKey":"2","odata.etag":"W/x","Timestamp":"2020-01-01T00:00:00Z"}' \
        >bad.jsonl
    run 1 import Bad bad.jsonl
    last_says '^tableward: bad.jsonl:2: '
    run 1 import Bad bad.jsonl --on-error skip
    says 'bad.jsonl:4: .*PartitionKey'
    says 'bad.jsonl:5: .*RowKey'
    last_says '3 lines were rejected: see bad.jsonl.rejected$'
    run 0 count Bad
    prints '^2$'
    [ "$(wc -l <bad.jsonl.rejected)" -eq 3 ] || fail "not 3 lines are rejected"
    grep -qvxFf bad.jsonl bad.jsonl.rejected && fail "a line has changed"
    # Somebody may be correcting the rejected lines: they are not overwritten.
    cp bad.jsonl.rejected kept
    run 1 import Bad bad.jsonl --on-error skip
    last_says 'bad.jsonl.rejected exists and is not empty: first import its corrected'
    run 1 import Bad bad.jsonl --on-error skip --id kept
    run 1 import Bad bad.jsonl --on-error skip --id kept
    last_says 'bad.jsonl.rejected exists and is not empty: first import its corrected'
    cmp -s kept bad.jsonl.rejected || fail "rejected lines are overwritten"
    : >bad.jsonl.rejected
    run 1 import Bad bad.jsonl --on-error skip --id kept
    last_says '3 lines were rejected: see bad.jsonl.rejected$'
    cmp -s kept bad.jsonl.rejected || fail "an empty file is not used"
    # If the import is repeated, it reports the rejected lines again.
    run 1 import Bad bad.jsonl --on-error skip --id kept
    says 'import kept has already succeeded'
    last_says '3 lines were rejected'
    run 0 status kept
    prints '^state +succeeded'
    echo '{"PartitionKey":"a","RowKey":"1","L@odata.type":"x","L":[1]}' >list.jsonl
    run 1 import Bad list.jsonl
    last_says "list.jsonl:1: property 'L': a list cannot be the value of a property"
    for list in '[' ' [{"PartitionKey":"a","RowKey":"1"}]'; do
        echo "$list" >list.jsonl
        run 1 import Bad list.jsonl
        last_says 'list.jsonl:1: a list is not an entity: each line must be one JSON'
    done
    echo '{"PartitionKey":"a","RowKey":"1","X":1}' >one.jsonl
    run 0 import One one.jsonl
    says ' 1 entity stored in One$'
    run 0 export One one.jsonl --force
    says ' 1 entity exported to one.jsonl$'
    run 1 import Bad nowhere.jsonl
    says 'nowhere.jsonl cannot be read'
    run 64 import Bad bad.jsonl --on-conflict ovewrite
}

rejected_lines_can_be_corrected() {
    echo '{"PartitionKey":"p","RowKey":"r","A":1}' >there.jsonl
    run 0 import Mend there.jsonl
    # A line that the store refuses goes to the rejects file, too, unchanged,
    # also if it comes from a pipe.
    printf '%s\n' '{"RowKey":"r", "PartitionKey":"p","A":2}' 'no' \
        '{"PartitionKey":"p","RowKey":"s"}' >both.jsonl
    "$program" import Mend - --on-error skip --rejected kept.jsonl \
        >out 2>err <both.jsonl
    [ $? -eq 1 ] || fail "an import of a pipe"
    says '^tableward: -:1: .*different'
    last_says '2 lines were rejected: see kept.jsonl'
    sort kept.jsonl >out
    head -n 2 both.jsonl | LC_ALL=C sort | cmp -s - out ||
        fail "not the lines that were rejected"
    # A pipe has no rejects file unless one is named.
    cat both.jsonl | "$program" import Mend /dev/stdin --on-error skip \
        >out 2>err
    [ $? -eq 1 ] || fail "an import of a pipe without --rejected"
    last_says '2 lines were rejected$'
    sed -i '/no/d' kept.jsonl
    run 0 import Mend kept.jsonl --on-error skip --on-conflict replace
    [ ! -e kept.jsonl.rejected ] || fail "no line was rejected"
    run 0 export Mend
    prints '"RowKey":"r","A":2'
    run 64 import Mend both.jsonl --rejected kept.jsonl
    says 'needs --on-error skip'
    run 64 import Mend both.jsonl --on-error skip --rejected ./both.jsonl
    says 'the file that is imported'
    cp both.jsonl same.jsonl
    ln same.jsonl link.jsonl
    "$program" import Mend - --on-error skip --rejected link.jsonl \
        >out 2>err <same.jsonl
    [ $? -eq 64 ] || fail "standard input is its own --rejected"
    cmp -s both.jsonl same.jsonl || fail "the imported file is overwritten"
    run 1 import Mend both.jsonl --on-error skip --rejected nowhere/kept
    last_says 'nowhere/kept cannot be written'
    run 75 import Mend both.jsonl --on-error skip --rejected /dev/full
    last_says '/dev/full cannot be written'
}

# Another import, or another process of the same one, would truncate or remove
# the file while the first still has lines for it.
rejected_lines_are_not_lost_to_another_import() {
    mkfifo many
    "$program" import Many - --id held --on-error skip \
        --rejected many.jsonl >first.out 2>first.err <many &
    import=$!
    exec 3>many
    echo 'no' >&3
    i=0
    until [ -e many.jsonl ] || [ $((i += 1)) -gt 100 ]; do sleep 0.1; done
    run 75 import More bad.jsonl --on-error skip --rejected many.jsonl
    last_says 'many.jsonl: another process is writing this file'
    run 75 import Many - --id held --on-error skip --rejected many.jsonl
    last_says 'many.jsonl: another process is writing this file'
    exec 3>&-
    wait "$import"
    [ $? -eq 1 ] || fail "the first import does not end: $(cat first.err)"
    [ "$(cat many.jsonl)" = no ] || fail "a rejected line is lost"
}

# The import is stopped, the rejects file is corrected in place, and the import
# is continued.
a_rejects_file_that_was_edited_is_not_truncated() {
    mkfifo place
    "$program" import Place - --id place --on-error skip \
        --rejected place.jsonl >out 2>err <place &
    import=$!
    exec 3>place
    echo '{"PartitionKey":"p","RowKey":"r' >&3
    i=0
    until grep -q '^tableward: -:1: ' err || [ $((i += 1)) -gt 100 ]; do
        sleep 0.1
    done
    kill -TERM "$import"
    wait "$import"
    [ $? -eq 75 ] || fail "an import that is stopped does not end with 75"
    exec 3>&-
    sed -i 's/$/"}/' place.jsonl
    cp place.jsonl corrected.jsonl
    run 1 import Place - --id place --on-error skip --rejected place.jsonl
    last_says 'place.jsonl was edited since this import was interrupted: first import'
    run 1 import Place - --id place --on-error skip --rejected place.jsonl
    cmp -s place.jsonl corrected.jsonl || fail "corrected lines are truncated"
    rm place.jsonl
    run 0 import Place - --id place --on-error skip --rejected place.jsonl
    run 0 import Place corrected.jsonl
}

# The import notices this at its next write to the ledger, or at its end.
an_import_whose_id_is_taken_over_ends_with_75() {
    echo '{"PartitionKey":"p","RowKey":"r"}' >over.jsonl
    mkfifo over
    for id in looks ends; do
        "$program" import Over - --id "$id" >out 2>err <over &
        import=$!
        exec 3>over
        i=0
        until "$program" status "$id" >/dev/null 2>&1 ||
            [ $((i += 1)) -gt 100 ]; do sleep 0.1; done
        "$program" import Over - --id "$id" <over.jsonl >/dev/null 2>&1 ||
            fail "an import is not taken over"
        [ "$id" = ends ] || { sleep 1.2 && cat over.jsonl >&3; }
        [ "$id" = looks ] || exec 3>&-
        wait "$import"
        [ $? -eq 75 ] || fail "an import whose id is taken over does not end with 75"
        last_says "^tableward: .*another process has taken over import $id"
        exec 3>&-
    done
}

csv_is_read_as_storage_explorer_writes_it() {
    printf '%s\r\n' \
        'PartitionKey,RowKey,Timestamp,Title,Title@type,Views,Views@type' \
        'p,a,2024-01-01T00:00:00Z,"one, ""two""",String,5,Int64' \
        'p,b,2024-01-01T00:00:00Z,"two' 'lines",String,,' \
        'p,"c,2024-01-01T00:00:00Z,,,,' \
        'p,d,2024-01-01T00:00:00Z,,,x,Int32' \
        'p,e,2024-01-01T00:00:00Z,,String,7,Edm.Int32' >table.csv
    run 1 import Csv table.csv
    last_says '^tableward: table.csv:5: '
    run 1 import Csv table.csv --on-error skip
    says "table.csv:6: property 'Views'"
    last_says '2 lines were rejected'
    run 0 export Csv
    cat >wanted <<'JSON'
{"PartitionKey":"p","RowKey":"a","Title":"one, \"two\"","Views@odata.type":"Edm.Int64","Views":"5"}
{"PartitionKey":"p","RowKey":"b","Title":"two\r\nlines"}
{"PartitionKey":"p","RowKey":"e","Title":"","Views":7}
JSON
    cmp -s out wanted || fail "CSV is read as something else"
    sed -i 's/"c,/c,/; s/,x,/,8,/' table.csv.rejected
    mv table.csv.rejected corrected
    run 0 import Csv corrected --format csv
    run 0 count Csv
    prints '^5$'
    run 1 import Csv both.jsonl --format csv
    last_says 'both.jsonl:1: '
    run 64 import Csv corrected --format cvs
    says "did you mean 'csv'"
}

csv_is_written_as_it_is_read() {
    run 0 import Types types.jsonl
    run 0 export Types types.csv
    says ' 1 entity exported to types.csv$'
    run 0 import TypesCsv types.csv
    run 0 export TypesCsv
    cmp -s out types.jsonl || fail "types changed in CSV: $(cat out)"
    run 0 export Types --format csv
    cmp -s out types.csv || fail "CSV on standard output is another"
    run 0 export Types types.csv --format json --force
    cmp -s types.jsonl types.csv || fail "--format does not decide"
    run 0 export Csv --format csv --select Views
    prints '^PartitionKey,RowKey,Views,Views@type$'
    prints '^p,a,5,Int64$'
    prints '^p,b,,$'
    run 64 export Types types2.csv --id e1
    last_says 'id cannot continue a CSV file'
    run 64 export Types --format cvs
    says "did you mean 'csv'"
}

# Nobody reads the pipe, so that the export waits in a write.
a_write_that_waits_is_stopped_within_5_s() {
    i=0
    title=$(printf '%0300d' 0)
    while [ $((i += 1)) -le 2000 ]; do
        echo "{\"PartitionKey\":\"a\",\"RowKey\":\"$i\",\"Title\":\"$title\"}"
    done >wide.jsonl
    run 0 import Wide wide.jsonl
    mkfifo unread
    exec 3<>unread
    for file in - unread; do
        "$program" export Wide "$file" >unread 2>err </dev/null &
        export=$!
        wait_for_handler "$export"
        sleep 1
        begin=$(date +%s)
        kill -TERM "$export"
        wait "$export"
        [ $? -eq 75 ] || fail "an export that waits does not end with 75"
        [ $(($(date +%s) - begin)) -le 5 ] || fail "an export does not end"
        last_says 'stopped before the end$'
    done
    exec 3>&-
}

import_meets_what_is_there() {
    echo '{"PartitionKey":"p","RowKey":"r","A":1,"B":1}' >one.jsonl
    echo '{"PartitionKey":"p","RowKey":"r","B":2}' >two.jsonl
    run 0 import Meet one.jsonl
    run 1 import Meet two.jsonl
    last_says '^tableward: two.jsonl:1: .*different'
    run 0 import Meet two.jsonl --on-conflict skip
    says '1 entity existed and is unchanged'
    run 0 import Meet two.jsonl --on-conflict merge
    run 0 export Meet
    prints '"A":1,"B":2'
    run 0 import Meet two.jsonl --on-conflict replace
    run 0 export Meet
    prints '^\{"PartitionKey":"p","RowKey":"r","B":2\}$'
    # If several lines have the same keys, the last one counts.
    cat one.jsonl two.jsonl one.jsonl >three.jsonl
    run 0 import Meet three.jsonl --on-conflict replace
    run 0 export Meet
    prints '"A":1,"B":1'
}

import_with_an_id_happens_once() {
    run 0 import Once blogs.jsonl --id once
    run 0 import Once blogs.jsonl --id once
    says 'already succeeded'
    run 64 import Once bad.jsonl --id once
    # A file with the same name and other content: the file was replaced, or it
    # is another standard input.
    cp blogs.jsonl feed.jsonl
    run 0 import Once feed.jsonl --id feed
    echo '{"PartitionKey":"a","RowKey":"new"}' >feed.jsonl
    run 64 import Once feed.jsonl --id feed
    last_says 'import feed has succeeded with other content than feed.jsonl has now: nothing was imported; import this content under another id'
    "$program" import Once - --id piped <blogs.jsonl >out 2>err ||
        fail "an import of standard input fails: $(cat err)"
    "$program" import Once - --id piped <feed.jsonl >out 2>err
    [ $? -eq 64 ] || fail "a second standard input is dropped"
    last_says 'import piped has succeeded with other content than standard input has'
    "$program" import Once - --id piped <blogs.jsonl >out 2>err ||
        fail "the same standard input again fails: $(cat err)"
    says 'import piped has already succeeded'
    run 0 status once
    prints '^state +succeeded'
    printf '%s\n' '{"PartitionKey":"a","RowKey":"x"}' 'no' >half.jsonl
    run 1 import Half half.jsonl --id half
    run 0 status half
    prints '^state +failed'
    prints 'half.jsonl:2'
    echo '{"PartitionKey":"a","RowKey":"x"}' >half.jsonl
    run 0 import Half half.jsonl --id half
    run 0 status half
    prints '^state +succeeded'
}

what_cannot_be_written_is_noticed() {
    "$program" export Blogs >/dev/full 2>err </dev/null
    [ $? -eq 75 ] || fail "a full standard output is not noticed"
    "$program" version >/dev/full 2>err
    [ $? -eq 75 ] || fail "version does not notice a full standard output"
    run 75 export Blogs /dev/full
    run 1 export Blogs nowhere/blogs.jsonl
}

# If a standard stream is closed, no file that the program opens gets its
# number, least of all a store.
a_closed_stream_is_nobody_elses() {
    echo '{"PartitionKey":"p","RowKey":"r"}' >closed.jsonl
    for again in '' ' again'; do
        "$program" import Closed closed.jsonl <&- >&- 2>&- ||
            fail "an import without standard streams$again"
    done
    : >out
    "$program" import Closed - <&- >out 2>err
    [ $? -eq 1 ] || fail "a closed standard input is imported"
    says '^tableward: - cannot be read: Bad file descriptor'
    "$program" export Closed <&- >&- 2>err
    [ $? -eq 1 ] || fail "a closed standard output is not noticed"
    says 'Bad file descriptor'
    run 0 export Closed
    prints '^\{"PartitionKey":"p","RowKey":"r"\}$'
}

tables_of_the_job() {
    : >none.jsonl
    for table in Blogs Comments BlogsByMonth Subscriptions; do
        run 0 import "$table" none.jsonl
    done
    for channel in a b c; do
        echo "{\"PartitionKey\":\"$channel\",\"RowKey\":\"\"}"
    done >channels.jsonl
    run 0 import Channels channels.jsonl
    sed 's/settle: 5s/settle: 0s/' tableward.yaml >now.yaml
    mv now.yaml tableward.yaml
}

arguments_are_checked() {
    run 64 enqueue delete-chanel channel=a
    says "did you mean 'delete-channel'"
    run 64 enqueue delete-channel
    says 'channel'
    run 64 enqueue delete-channel chanel=a
    says "did you mean 'channel'"
    run 64 enqueue delete-channel chanel=a channel=a
    says "unknown argument 'chanel'\$"
    run 64 enqueue delete-channel a
    says 'NAME=VALUE'
    run 64 enqueue delete-channel channel=
    run 64 enqueue delete-channel channel=a/b
    run 64 enqueue delete-channel channel=a channel=b
    run 64 enqueue delete-channel channel=a --delay soon
    run 64 enqueue delete-channel channel=a --queue tablewrd
    says "did you mean 'tableward'"
    run 64 enqueue delete-channel channel=a --id mine
    says 'bound'
    run 64 enqueue delete-channel channel=a --queue tableward --id .x
    run 64 run delete-channel channel=a --yes --id ../x
    run 64 run delete-chanel channel=a --yes
    says "did you mean 'delete-channel'"
    run 64 run delete-channel chanel=a --yes
    says "did you mean 'channel'"
    run 64 run delete-channel --yes
    says 'channel'
    run 64 run delete-channel channel= --yes
    says 'channel'
    silent
}

verify_says_what_it_cannot_check() {
    run 64 verify
    says 'needs JOB'
    run 64 verify delete-chanel
    says "did you mean 'delete-channel'"
    run 64 verify purge-drafts
    says 'kind delete, which verify does not check'
    run 64 verify purge-drafts --repair
    says 'planned'
    silent
}

verify_reads_a_filter_however_it_is_written() {
    for filter in "Type eq 'sub' and Channel eq '{channel}'" \
        "Type eq 'sub'
          and Channel
          eq  '{channel}'"; do
        cat >filter.yaml <<YAML
stores: {main: {embedded: filter.db}}
jobs:
  del:
    kind: cascade-delete
    args: [channel]
    parent: {table: Channels, partition_key: "{channel}", row_key: "", tombstone: {Deleted: true}}
    children:
      - table: Subs
        filter: |-
          $filter
YAML
        echo '{"PartitionKey":"F","RowKey":""}' >filter.jsonl
        run 0 import Channels filter.jsonl --config filter.yaml
        echo '{"PartitionKey":"u","RowKey":"1","Type":"sub","Channel":"F"}' \
            >filter.jsonl
        run 0 import Subs filter.jsonl --config filter.yaml
        run 0 verify del --config filter.yaml
        sed 's/"1"/"2"/; s/"F"/"G"/' filter.jsonl >other.jsonl
        run 0 import Subs other.jsonl --config filter.yaml
        run 1 verify del --config filter.yaml
        prints 'children without a parent: 1'
        prints 'Subs u/2'
        rm filter.db*
    done
    sed 's/and Channel/or Channel/' filter.yaml >other.yaml
    run 0 import Channels filter.jsonl --config other.yaml
    run 64 verify del --config other.yaml
    says 'does not show which channel'
    rm -rf filter.db*
}

verify_looks_below_the_first_level() {
    cat >nested.yaml <<'YAML'
stores: {main: {embedded: nested.db}}
jobs:
  del:
    kind: cascade-delete
    args: [channel]
    parent: {table: Channels, partition_key: "{channel}", row_key: "", tombstone: {Deleted: true}}
    children:
      - table: Blogs
        partition_key: "{channel}"
        children: [{table: Comments, partition_key: "{RowKey}"}]
YAML
    echo '{"PartitionKey":"F","RowKey":""}' >nested.jsonl
    run 0 import Channels nested.jsonl --config nested.yaml
    echo '{"PartitionKey":"F","RowKey":"b1"}' >nested.jsonl
    run 0 import Blogs nested.jsonl --config nested.yaml
    echo '{"PartitionKey":"b1","RowKey":"c1"}' >nested.jsonl
    run 0 import Comments nested.jsonl --config nested.yaml
    run 0 verify del --config nested.yaml
    echo '{"PartitionKey":"b2","RowKey":"late"}' >nested.jsonl
    run 0 import Comments nested.jsonl --config nested.yaml
    for argument in '' channel=F; do
        # shellcheck disable=SC2086 # no argument at first
        run 1 verify del $argument --config nested.yaml
        prints 'children without a parent: 1'
        prints 'Comments b2/late'
    done
    sed 's/{RowKey}/{lower(RowKey)}/' nested.yaml >other.yaml
    run 0 verify del --config other.yaml
    prints 'entity is above them: Comments \(line 10\)'
    rm -f nested.db*
}

convert_is_a_filter() {
    cat >convert.yaml <<'YAML'
stores:
  main: {embedded: convert.db}
jobs:
  up:
    kind: schema-upgrade
    table: Blogs
    filter: "Kind eq 'blog'"
    version: {property: V, absent: 1}
    versions:
      - to: 2
        steps: [{rename: {property: Text, to: Body}}]
      - to: 3
        steps: [{retype: {property: R, to: Edm.Double}}]
  purge: {kind: delete, table: Blogs, all: true}
  index:
    kind: copy
    from: {table: Blogs, row_key_below: "i:"}
    to: {table: Blogs, row_key: "i:{RowKey}"}
YAML
    cat >convert-in.jsonl <<'LINES'
{"PartitionKey":"p","RowKey":"1","Kind":"blog","Text":"x","R":5}
{"PartitionKey":"p","RowKey":"2","Kind":"note",  "R":5}
{"PartitionKey":"p","RowKey":"3","Kind":"blog","V":2,"R":"no"}

{"PartitionKey":"p"}
LINES
    last='convert up'
    "$program" convert up --config convert.yaml <convert-in.jsonl >out 2>err
    code=$?
    [ "$code" -eq 1 ] || fail "it ended with $code"
    prints '"RowKey":"1".*"R":5.0.*"Body":"x".*"V":3'
    prints '^\{"PartitionKey":"p","RowKey":"2","Kind":"note",  "R":5\}$'
    [ "$(wc -l <out)" -eq 2 ] || fail "a line that failed is not omitted"
    says "line 3, 'p' / '3': version 3, retype R: .*; the line is omitted"
    says 'line 5: .*; the line is omitted'
    last_says '2 of 4 lines failed'
    cp out convert-out.jsonl
    "$program" convert up --config convert.yaml <convert-out.jsonl >out 2>err ||
        fail "it is not at the newest version"
    cmp -s out convert-out.jsonl || fail "what is converted is converted again"
    printf '%s\n' '{"PartitionKey":"p","RowKey":"1","Kind":"blog","Text":"x"}' |
        "$program" import Blogs - --config convert.yaml 2>err ||
        fail "the entity is not imported"
    run 0 run index --yes --config convert.yaml
    run 0 export Blogs convert-in.jsonl --force --config convert.yaml
    "$program" convert up --config convert.yaml <convert-in.jsonl >out 2>err ||
        fail "an index row is not converted"
    prints '"RowKey":"1".*"Body":"x"'
    grep '"RowKey":"i:1"' convert-in.jsonl >convert-row.jsonl
    grep '"RowKey":"i:1"' out | cmp -s - convert-row.jsonl ||
        fail "an index row is changed"
    rm -rf convert.db*
    run 0 convert up --vectors 20 --config convert.yaml
    [ "$(grep -c '^{"before":{.*},"after":{.*"V":3[,}]' out)" -eq 20 ] ||
        fail "there are not 20 pairs"
    run 64 convert up --vectors 0 --config convert.yaml
    run 64 convert purge --config convert.yaml
    says 'kind delete: convert takes a job of kind schema-upgrade'
    run 64 convert
    [ ! -e convert.db ] || fail "convert makes the file of the store"
}

former_names_are_told_with_the_present_ones() {
    cat >former.yaml <<'YAML'
stores:
  main: {embedded: former.db}
jobs:
  a: {kind: migrate, mode: move, from: {table: Aaa}, to: {table: Bbb}}
  b: {kind: reindex, table: Ccc, copies: [{row_key: "x{RowKey}"}]}
  c: {kind: schema-upgrade, table: Ddd, steps: [], phase: all,
      version: {property: V, from: 1, to: 2}}
YAML
    run 78 check --config former.yaml
    says "^former.yaml:4:13: kind 'migrate' is a former name: .*kind: move"
    says "^former.yaml:4:22: 'mode' is a former key"
    says "^former.yaml:5:34: 'copies' is a former key: write .to:. with"
    says "^former.yaml:6:41: 'steps' is a former key: .*versions:"
    says "^former.yaml:6:52: 'phase' is a former key: .*run JOB phase=expand"
    says "^former.yaml:7:30: 'from' is a former key of .version:.: .*absent: 1"
}

a_run_is_asked_for_and_happens_once() {
    run 0 run delete-channel channel=a --dry-run
    prints '^Blogs: 150 entities'
    prints 'table scan'
    prints 'nothing was written'
    run 0 run delete-channel channel=nobody --dry-run
    prints '^the parent does not exist: a run inserts it as a tombstone'
    run 64 run delete-channel channel=a
    says '--yes'
    run 0 count Blogs
    prints '^200$'
    run 0 run delete-channel channel=a --yes --id first
    [ "$(head -n 1 out)" = first ] || fail "run does not print its id first"
    run 0 count Blogs
    prints '^50$'
    run 0 run delete-channel channel=a --yes --id first
    says 'succeeded at'
    run 0 status first --json
    prints '"Attempt":1[,}]'
    prints '"EntitiesDeleted":151[,}]'
    run 64 run delete-channel channel=b --yes --id first
    says 'other arguments'
    run 0 enqueue delete-channel channel=a --queue tableward --id first
    says 'succeeded at'
    run 64 enqueue delete-channel channel=b --queue tableward --id first
}

a_message_is_worked_on() {
    run 0 enqueue delete-channel channel=b
    id=$(cat out)
    run 0 status --json
    prints "\"Id\":\"$id\",\"State\":\"queued\""
    run 0 worker --drain
    run 0 status "$id"
    prints '^state +succeeded'
    run 0 status "$id" --json
    prints '"EntitiesDeleted":51[,}]'
    run 0 export Channels
    prints '"PartitionKey":"c"'
    grep -q '"PartitionKey":"b"' out && fail "the parent is still there"
    run 0 count Blogs
    prints '^0$'
}

a_run_is_cancelled() {
    run 0 enqueue delete-channel channel=c --queue tableward --id gone
    run 0 cancel gone
    prints '^gone is cancelled$'
    grep -q 'stays done' err && fail "a run that did nothing left something"
    run 0 cancel gone
    says 'was cancelled at'
    run 1 cancel nobody
    says "no run 'nobody'"
    run 0 worker --drain
    run 0 status gone
    prints '^state +cancelled'
    run 0 count Channels
    prints '^1$'
}

a_tombstone_is_said_to_stay() {
    sed 's/    settle: 0s/    settle: 10m/' tableward.yaml >late.yaml
    "$program" run delete-channel channel=stays --yes --id laid \
        --config late.yaml >out 2>err &
    pid=$!
    wait_for 'waits until' err
    run 0 cancel laid
    prints '^laid is cancelled$'
    says 'what it has done stays done; the tombstone on its parent stays'
    wait "$pid"
    run 0 run delete-channel channel=stays --yes
}

# The run's message stays hidden, so this case has a store of its own.
a_run_that_begins_later_is_paused_and_resumed() {
    cat >tomorrow.yaml <<'YAML'
stores: {main: {embedded: tomorrow.db}}
worker: {queues: [{name: tableward}]}
jobs:
  other: {kind: delete, args: [x], table: Blogs, partition_key: "{x}"}
YAML
    run 0 enqueue other x=p --id tomorrow --delay 1d --config tomorrow.yaml
    run 0 pause tomorrow --config tomorrow.yaml
    run 0 resume tomorrow --config tomorrow.yaml
    prints '^tomorrow begins at 20'
    run 0 status tomorrow --config tomorrow.yaml
    prints '^state +queued'
}

a_run_is_paused_and_resumed() {
    run 0 enqueue delete-channel channel=p --queue tableward --id later
    run 0 pause later
    prints '^later is paused$'
    says 'tableward resume later'
    run 0 pause later
    run 75 worker --drain
    says 'later is paused'
    run 0 status --state paused
    prints 'later +paused +channel=p'
    run 0 status late
    prints '^state +paused'
    run 0 resume later
    prints '^later continues$'
    run 0 resume later
    run 0 worker --drain
    run 0 status later
    prints '^state +succeeded'
    run 1 pause later
    says 'has ended already: succeeded'
    run 64 finish later
    says 'needs no finish: job .* has no `follow: true`, so its runs end by themselves'
    run 64 finish
    run 1 pause nobody
}

a_run_that_is_stopped_is_paused() {
    sed 's/    settle: 0s/    settle: 10m/' tableward.yaml >late.yaml
    "$program" run delete-channel channel=stop --yes --id halted \
        --config late.yaml >out 2>err &
    pid=$!
    wait_for 'waits until' err
    kill -TERM "$pid"
    wait "$pid"
    code=$?
    last='run that is stopped'
    [ "$code" -eq 75 ] || fail "a stopped run ended with $code"
    says 'stopped before the end, and paused: .*--id halted'
    run 0 status halted
    prints '^state +paused'
    run 0 run delete-channel channel=stop --yes --id halted
    run 0 status halted
    prints '^state +succeeded'
}

a_damaged_row_is_shown_beside_the_others() {
    run 0 enqueue delete-channel channel=p --queue tableward --id damaged
    run 0 enqueue delete-channel channel=p --queue tableward --id whole
    echo '{"PartitionKey":"delete-channel","RowKey":"damaged","State":5}' \
        >damage.jsonl
    run 0 import TablewardRuns damage.jsonl --on-conflict merge
    run 0 status
    prints '^delete-channel +damaged +damaged .*State'
    prints '^delete-channel +whole +queued'
    run 0 status --json
    prints '"Id":"damaged","State":"damaged"'
    run 1 status --failing
    prints 'damaged +damaged'
    last_says '1 run is failed, poisoned or held'
    run 1 cancel damaged
    echo '{"PartitionKey":"delete-channel","RowKey":"damaged","State":"queued"}' \
        >damage.jsonl
    run 0 import TablewardRuns damage.jsonl --on-conflict merge
    run 0 worker --drain
    run 0 status --failing
    silent
}

status_shows_what_is_asked_for() {
    run 0 enqueue delete-channel channel=p --queue tableward --id queued-1
    run 0 status
    prints '^queue tableward: 1 message, the oldest waits [0-9]+ s$'
    run 0 status --queues
    grep -q queued-1 out && fail "--queues shows runs"
    run 0 status --queues --json
    prints '"Queue":"tableward","Messages":1,"Oldest":"2'
    run 0 status --limit 1 --json
    prints '"Id":"queued-1"'
    [ "$(grep -c '"Id"' out)" -eq 1 ] || fail "--limit 1 shows more"
    run 0 status --state succeeded --since 0
    grep -q queued-1 out && fail "--state succeeded shows a queued run"
    run 1 status --failing --older 0s
    prints '^queue tableward'
    run 64 status --state faild
    says "did you mean 'failed'"
    run 64 status --older 3m
    run 64 status --queues --failing
    run 64 status --since 3w
    run 64 status --limit -1
    run 0 cancel queued-1
    run 0 worker --drain
}

# A run that `run` began has no message: retry puts one, or says why it does
# not.
a_run_by_hand_is_retried() {
    sed 's/table: BlogsByMonth/table: Nowhere/' tableward.yaml >nowhere.yaml
    run 1 run delete-channel channel=hand --yes --id hand --config nowhere.yaml
    run 0 poison retry hand
    prints '^hand is queued again$'
    run 0 worker --drain
    run 0 status hand
    prints '^state +succeeded'
    run 1 run delete-channel "channel=h'2" --yes --id hand2 \
        --config nowhere.yaml
    cat >unserved.yaml <<'YAML'
stores:
  main: {embedded: tableward.db}
worker: {queues: [{name: elsewhere, job: other, body: x, encoding: text}]}
jobs:
  delete-channel:
    kind: cascade-delete
    args: [channel]
    parent: {table: Channels, partition_key: "{channel}", row_key: "",
             tombstone: {Deleted: true}}
    children: [{table: Blogs, partition_key: "{channel}"}]
  other: {kind: delete, args: [x], table: Blogs, partition_key: "{x}"}
YAML
    run 0 check --config unserved.yaml
    run 69 poison retry hand2 --config unserved.yaml
    last_says "tableward run delete-channel channel='h'\\\\''2' --id hand2"
    run 0 run delete-channel "channel=h'2" --yes --id hand2 --config unserved.yaml
}

poison_is_shown_and_retried() {
    sed 's/table: BlogsByMonth/table: Nowhere/' tableward.yaml >nowhere.yaml
    run 0 enqueue delete-channel channel=c
    id=$(cat out)
    run 1 --config nowhere.yaml worker --drain
    last_says 'Nowhere'
    run 0 poison list
    prints "$id.*Nowhere"
    run 0 poison show "$id"
    prints '^arguments +\{"channel":"c"\}'
    for shown in list "show $id"; do
        # shellcheck disable=SC2086
        run 0 poison $shown --json
        prints "^\\[\\{.*\"Id\":\"$id\".*\"State\":\"failed\".*\\}\\]$"
    done
    run 64 poison retry "$id" --json
    run 0 status
    prints "$id +failed"
    run 0 poison retry "$id"
    run 0 poison retry "$id"
    run 0 worker --drain
    run 1 poison retry "$id"
    run 0 count Channels
    prints '^0$'
    run 0 poison list
    silent
    run 0 poison list --json
    prints '^\[\]$'
    run 1 run delete-channel channel=d --yes --config nowhere.yaml
    last_says 'Nowhere'
}

a_dropped_run_is_left_alone() {
    run 0 enqueue delete-channel channel=d --queue tableward --id dropped
    run 1 --config nowhere.yaml worker --drain
    run 0 poison list --all
    prints 'dropped.*Nowhere'
    run 0 poison drop dropped
    prints '^dropped is dropped$'
    run 0 poison list --all
    grep -q dropped out && fail "a dropped run is listed"
    run 0 poison retry --all --accept-definition
    grep -q dropped out && fail "a dropped run is retried"
    run 0 worker --drain
    run 0 status dropped
    prints '^state +cancelled'
    prints '^error .*Nowhere'
    run 1 poison drop dropped
    last_says 'neither failed nor poisoned: it is cancelled'
    run 1 poison retry dropped
}

# Such a run would delete its own lease, and the locks and intents of others.
a_job_that_would_change_the_ledger_is_refused() {
    cat >ledger.yaml <<'YAML'
stores:
  main: {embedded: tableward.db}
  other: {embedded: other.db}
default_store: main
jobs:
  drop:
    {kind: delete, table: TablewardRuns, all: true}
  away:
    {kind: move, from: {store: other, table: tablewardruns}, to: {table: Runs}}
  history:
    {kind: copy, from: {table: TablewardRuns}, to: {table: History}}
YAML
    run 78 check --config ledger.yaml
    says 'ledger.yaml:6:3: job drop would change the table TablewardRuns, .* set `keep_runs` of `worker:`'
    says 'ledger.yaml:8:3: job away would change the table TablewardRuns'
    [ "$(grep -c 'would change' err)" = 2 ] || fail "a job that reads is refused"
    run 78 run drop --yes --config ledger.yaml
    sed -e '/drop:/,+3d' ledger.yaml >history.yaml
    run 0 check --config history.yaml
}

# forget FILE JOB: takes the runs of a job out of the ledger in an embedded store,
# so that a message of the job is as one that a front end has put.
forget() {
    sqlite3 "$1" "DELETE FROM entities WHERE partition_key = CAST('$2' AS BLOB)
        AND table_id = (SELECT id FROM tables WHERE name = 'TablewardRuns')"
}

a_poisoned_message_is_told_and_dropped() {
    sed 's/delete-channel$/other/; s/delete-channel:$/other:/' tableward.yaml \
        >other.yaml
    run 0 enqueue delete-channel channel=c --queue tableward
    forget tableward.db delete-channel
    run 1 --config other.yaml worker --drain
    last_says "unknown job 'delete-channel'"
    run 0 status --job - --json
    prints '"State":"poisoned"'
    id=$(sed 's/.*"Id":"\([^"]*\)".*/\1/' out)
    run 0 poison list --queue tableward
    prints "$id.*unknown job"
    run 0 poison drop "$id"
    run 0 poison list --queue tableward
    silent
}

# A front end may give runs of two jobs the same id.
one_id_may_be_two_jobs_run() {
    cat >twins.yaml <<'YAML'
stores:
  main: {embedded: twins.db}
worker: {queues: [{name: twins}]}
jobs:
  a: {kind: delete, table: Twins, filter: "A eq 1"}
  b: {kind: delete, table: Twins, filter: "A eq 1"}
YAML
    echo '{"PartitionKey":"a","RowKey":"a","A":1}' >one.jsonl
    run 0 import Twins one.jsonl --config twins.yaml
    run 0 enqueue a --id twin --config twins.yaml
    run 0 enqueue b --id twin --config twins.yaml
    run 0 status twin --config twins.yaml
    prints '^job +a$'
    prints '^job +b$'
    run 0 status twin --job b --config twins.yaml
    grep -q '^job *a$' out && fail "status of a job shows another one's run"
    run 1 cancel twin --config twins.yaml
    says 'write one of these names: a/twin, b/twin$'
    run 0 cancel a/twin --config twins.yaml
    run 0 cancel twin --config twins.yaml
    prints '^twin is cancelled'
    run 0 status b/twin --config twins.yaml
    prints '^state +cancelled'
}

# Once, a run of the job with the same id hid the entity of the message.
a_poisoned_message_is_found_beside_a_run() {
    sed 's/^  b:/  c:/' twins.yaml >unknown.yaml
    run 0 enqueue c --config unknown.yaml
    forget twins.db c
    run 1 worker --drain --config twins.yaml
    run 0 status --job - --json --config twins.yaml
    id=$(sed 's/.*"Id":"\([^"]*\)".*/\1/' out)
    run 0 run a --yes --id "$id" --config twins.yaml
    run 0 poison show "$id" --config twins.yaml
    prints '^job +-$'
    run 1 poison show "a/$id" --config twins.yaml
    says 'neither failed nor poisoned: it is succeeded'
    run 0 poison retry "$id" --config twins.yaml
    run 0 status --config twins.yaml -- "-/$id"
    prints '^state +cancelled'
}

# A configuration with these queues and these jobs.
bindings() { # FILE QUEUES [PURGE]
    cat >"$1" <<YAML
stores:
  main: {embedded: bindings.db}
worker: {queues: [$2]}
jobs:
  ${3-purge}: {kind: delete, args: [who], table: Blogs, partition_key: "{who}"}
  archive-user: {kind: delete, args: [user], table: Users, partition_key: "{user}"}
YAML
}

# The message's queue is bound to a job before the retry. Once, that job was
# executed with the message as its argument, and the message was lost.
a_refused_message_is_not_read_as_another_job_s() {
    user='{name: work, job: archive-user, body: user'
    bindings free.yaml '{name: work}'
    bindings without.yaml '{name: work}' other
    bindings bound.yaml "$user}"
    bindings both.yaml "$user}, {name: json}"
    bindings base64.yaml "$user, encoding: base64}"
    bindings rebound.yaml '{name: work, job: purge, body: who}'
    echo '{"PartitionKey":"an-na","RowKey":"a"}' >anna.jsonl
    run 0 import Blogs anna.jsonl --config free.yaml
    run 0 import Users anna.jsonl --config free.yaml
    run 0 enqueue purge who=an-na --config free.yaml
    forget bindings.db purge
    run 1 worker --drain --config without.yaml
    last_says "unknown job 'purge'"
    run 69 poison retry --all --config bound.yaml
    last_says "\`queues\` has no queue without \`job:\`"
    run 0 poison list --config bound.yaml
    prints "unknown job 'purge'"
    run 0 poison retry --all --config both.yaml
    run 0 worker --drain --config both.yaml
    run 0 count Blogs --config both.yaml
    prints '^0$'
    run 0 count Users --config both.yaml
    prints '^1$'
    # The other way round: the message is an argument, from a bound queue.
    run 0 import Blogs anna.jsonl --config free.yaml
    run 0 enqueue archive-user user=an-na --config bound.yaml
    forget bindings.db archive-user
    run 1 worker --drain --config base64.yaml
    last_says 'not base64'
    for file in rebound free; do
        run 69 poison retry --all --config $file.yaml
        last_says 'was bound to job archive-user with encoding base64'
    done
    run 0 poison retry --all --config both.yaml
    run 0 worker --drain --config both.yaml
    run 0 count Blogs --config both.yaml
    prints '^1$'
    run 0 count Users --config both.yaml
    prints '^0$'
}

# The XML of queues cannot contain U+FFFF. As plain text, the message of such a
# run could not be put: the run could not be retried, resumed or enqueued.
a_text_that_no_queue_carries_is_put_as_base64() {
    cat >odd.yaml <<'YAML'
stores: {main: {embedded: odd.db}}
worker: {queues: [{name: tableward}]}
jobs:
  purge: {kind: delete, args: [who], table: Blogs, partition_key: "{who}"}
YAML
    who=$(printf 'a\357\277\277')
    run 0 enqueue purge "who=$who" --id odd --config odd.yaml
    run 1 worker --drain --config odd.yaml
    last_says 'Blogs'
    echo "{\"PartitionKey\":\"$who\",\"RowKey\":\"1\"}" >odd.jsonl
    run 0 import Blogs odd.jsonl --config odd.yaml
    run 0 poison retry odd --config odd.yaml
    run 0 pause odd --config odd.yaml
    run 0 resume odd --config odd.yaml
    run 0 worker --drain --config odd.yaml
    run 0 count Blogs --config odd.yaml
    prints '^0$'
}

# renamed FILE JOB QUEUE: the configuration of runs whose job or queue changes.
renamed() {
    cat >"$1" <<YAML
stores: {main: {embedded: renamed.db}}
worker: {queues: [$3], visibility_timeout: 2s}
jobs:
  $2: {kind: delete, args: [who], table: Accounts, partition_key: "{who}"}
  other: {kind: delete, args: [x], table: Accounts, partition_key: "{x}"}
YAML
}

poisoned_are() {
    run 0 status --queues --config served.yaml
    prints ", $1 poisoned"
}

# Once, a retry of such runs ended their state `failed` and deleted their poison
# copies, but no worker executed them, and monitoring did not report them.
failed_runs_that_no_worker_can_take_are_not_forgotten() {
    rm -f renamed.db*
    renamed served.yaml purge '{name: tableward}'
    renamed gone.yaml purge-accounts '{name: tableward}'
    renamed by-hand.yaml purge '{name: tableward, job: other, body: x}'
    for id in r1 r2; do
        run 0 enqueue purge who=anna --id $id --config served.yaml
    done
    run 1 worker --drain --config served.yaml
    poisoned_are 2
    run 69 poison retry r1 --config gone.yaml
    last_says 'run r1 stays failed: job purge is not in the configuration'
    run 69 poison retry --all --config gone.yaml
    last_says 'poison retry did not succeed for 2 of 2 runs'
    run 1 status --failing --config gone.yaml
    poisoned_are 2
    # Only `run` can execute it.
    run 69 poison retry r1 --config by-hand.yaml
    last_says "tableward run purge who='?anna'? --id r1"
    poisoned_are 2
    run 0 import Accounts anna.jsonl --config served.yaml
    run 0 run purge who=anna --id r1 --yes --config by-hand.yaml
    poisoned_are 1
    run 0 poison retry --all --config served.yaml
    run 0 worker --drain --config served.yaml
    run 0 status --queues --config served.yaml
    prints '0 messages$'
}

# Once, such runs stayed `queued` or `waiting` for ever, and nothing reported
# them.
open_runs_without_queue_or_job_are_named() {
    rm -f renamed.db*
    renamed old.yaml purge '{name: old}'
    renamed new.yaml purge '{name: new}'
    renamed gone.yaml purge-accounts '{name: old}'
    run 0 import Accounts anna.jsonl --config old.yaml
    run 0 enqueue purge who=an-na --id r1 --config old.yaml
    run 0 status --failing --older 1d --config old.yaml
    run 75 worker --drain --config new.yaml
    says 'warn worker: 1 open run cannot be continued: purge/r1: queue old is not in `queues`: restore it, or move the run to queue new with `tableward resume r1`'
    says 'does not wait for 1 open run: purge/r1 is queued: queue old is not'
    last_says '^tableward: 1 open run is left'
    run 1 status --failing --older 1d --config new.yaml
    prints '^purge +r1 +queued .*queue old is not in `queues`'
    last_says '1 run is failed, poisoned or held, 0 queues are late'
    run 1 status --failing --json --config new.yaml
    grep -q not.in out && fail "JSON shows other than the ledger has"
    run 1 status --failing --older 1d --config gone.yaml
    prints 'job purge is not in the configuration'
    run 0 worker --drain --config old.yaml
    run 0 status --failing --older 1d --config new.yaml
    # After a reload, with a run that begins later.
    run 0 enqueue purge who=an-na --id r2 --delay 1h --config old.yaml
    cp old.yaml live.yaml
    "$program" worker --config live.yaml 2>err &
    pid=$!
    wait_for ready err
    cp new.yaml live.yaml
    kill -HUP "$pid"
    wait_for '1 open run cannot be continued: purge/r2: queue old' err
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
}

# Once, `resume` reported that such a run waits, and did nothing.
a_run_of_a_renamed_queue_is_moved() {
    rm -f renamed.db*
    renamed old.yaml purge '{name: old}'
    renamed new.yaml purge '{name: new}'
    renamed gone.yaml purge-accounts '{name: new}'
    run 0 import Accounts anna.jsonl --config old.yaml
    run 0 enqueue purge who=an-na --id r1 --config old.yaml
    run 69 resume r1 --config gone.yaml
    last_says 'run r1 stays queued: job purge is not in the configuration'
    run 0 resume r1 --config new.yaml
    says 'no worker of this configuration serves queue old: the run is on queue new now'
    run 0 status --failing --config new.yaml
    run 0 worker --drain --config new.yaml
    run 0 count Accounts --config new.yaml
    prints '^0$'
    # A run that its worker still executes stays where it is.
    run 0 enqueue purge who=an-na --id r2 --config old.yaml
    cat >owned.jsonl <<'LINES'
{"PartitionKey":"purge","RowKey":"r2","State":"running","Owner":"other","Control":"pause","LeaseUntil@odata.type":"Edm.DateTime","LeaseUntil":"2999-01-01T00:00:00Z"}
LINES
    run 0 import TablewardRuns owned.jsonl --on-conflict merge --config old.yaml
    run 0 resume r2 --config new.yaml
    prints '^r2 continues$'
    [ ! -s err ] || fail "it speaks of a queue: $(cat err)"
    run 0 status r2 --config new.yaml
    prints '^queue +old$'
}

following() {
    cat >"$1" <<YAML
stores: {main: {embedded: following.db}}
worker: {queues: [$3], visibility_timeout: 2s}
jobs:
  keep: {kind: copy, from: {table: Accounts}, to: {table: Kept, row_key: "$2{RowKey}"}, follow: true}
YAML
}

# Once, `finish` reported of every run that it makes its last rounds and ends.
finish_says_what_must_happen_before() {
    rm -f following.db*
    following following.yaml x '{name: tableward}'
    following changed.yaml y '{name: tableward}'
    following renamed.yaml x '{name: new}'
    run 0 import Accounts anna.jsonl --config following.yaml
    run 0 enqueue keep --id r1 --config following.yaml
    run 0 finish r1 --config following.yaml
    prints '^r1 is queued: once a worker takes it, it makes its last rounds and ends$'
    run 0 pause r1 --config following.yaml
    run 0 finish r1 --now --config following.yaml
    prints '^r1 is paused: once `tableward resume r1` continues it, it makes its last round and ends$'
    run 0 resume r1 --config following.yaml
    run 0 worker --drain --config following.yaml
    run 0 status r1 --config following.yaml
    prints '^state +succeeded'
    # The run is held, or will be: no worker has seen the new definition yet.
    rm -f following.db*
    run 0 import Accounts anna.jsonl --config following.yaml
    run 0 enqueue keep --id r2 --config following.yaml
    run 75 worker --drain --config following.yaml
    sed 's/kind: copy.*/kind: delete, table: Accounts, all: true}/' following.yaml >delete.yaml
    run 64 finish r2 --config delete.yaml
    last_says 'run r2 cannot be finished: job keep is a delete now, and was a copy when this run was requested'
    for _ in before after; do
        run 0 finish r2 --config changed.yaml
        prints '^r2 is held \(the definition of its job has changed: .* `resume`\): once it continues, it makes its last rounds and ends$'
        run 75 worker --drain --config changed.yaml
        run 0 status r2 --config changed.yaml
        prints '^state +held: definition'
    done
    run 0 resume r2 --config following.yaml
    "$program" worker --config following.yaml 2>err &
    pid=$!
    wait_for 'run keep/r2: succeeded' err
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
    # The message lies on a queue that is not served any more.
    rm -f following.db*
    run 0 import Accounts anna.jsonl --id imported --config following.yaml
    run 64 finish imported --config following.yaml
    last_says 'imported is an import, which ends by itself'
    run 0 enqueue keep --id r3 --config following.yaml
    run 75 worker --drain --config following.yaml
    run 0 finish r3 --config renamed.yaml
    prints '^r3 makes its last rounds and ends$'
    "$program" worker --config renamed.yaml 2>err &
    pid=$!
    wait_for 'run keep/r3: succeeded' err
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
}

purging() {
    cat >"$1" <<YAML
stores: {main: {embedded: purging.db}}
worker: {queues: [{name: tableward}], visibility_timeout: 2s}
jobs:
  purge: {kind: delete, table: $2, all: true}
YAML
}

# Once, the run emptied the other table without a warning.
a_changed_definition_is_accepted_by_a_person() {
    rm -f purging.db*
    purging scratch.yaml Scratch
    purging accounts.yaml Accounts
    run 0 import Accounts anna.jsonl --config accounts.yaml
    run 0 enqueue purge --id r1 --config scratch.yaml
    run 1 worker --drain --config scratch.yaml
    # `retry --all` does not retry a run whose job has changed.
    run 1 poison retry --all --config accounts.yaml
    says 'the definition of job purge has changed since run r1 began: restore it, or accept the new one with `poison retry r1`'
    run 0 poison retry --all --config scratch.yaml
    prints '^r1 is queued again$'
    [ ! -s err ] || fail "it speaks of a change: $(cat err)"
    # After the resume of a paused run a worker first holds the run, so that
    # somebody can read what has changed.
    run 0 pause r1 --config scratch.yaml
    run 0 resume r1 --config accounts.yaml
    prints '^r1 is queued$'
    says 'the definition of job purge has changed since run r1 began: a worker will hold the run; then restore the definition, or repeat `tableward resume r1` to accept it'
    run 75 worker --drain --config accounts.yaml
    run 0 status r1 --config accounts.yaml
    prints '^state +held: definition'
    prints 'the run began with Scratch \(store main\), the job has Accounts \(store main\) now'
    run 0 count Accounts --config accounts.yaml
    prints '^1$'
    # With the restored definition the run fails as before.
    run 0 resume r1 --config scratch.yaml
    run 1 worker --drain --config scratch.yaml
    run 64 poison retry r1 --accept-definition --config accounts.yaml
    run 0 poison retry --all --accept-definition --config accounts.yaml
    says 'runs that start over, because the definition of their job has changed since they began: 1$'
    run 0 pause r1 --config accounts.yaml
    run 0 resume r1 --config scratch.yaml
    run 1 worker --drain --config scratch.yaml
    run 0 poison retry r1 --config accounts.yaml
    says 'the definition of job purge has changed since run r1 began: the run starts over under the present one'
    run 0 worker --drain --config accounts.yaml
    run 0 count Accounts --config accounts.yaml
    prints '^0$'
}

accepting() {
    rm -f accepting.db*
    cat >accepting.yaml <<'YAML'
stores: {main: {embedded: accepting.db}}
worker: {queues: [{name: tableward}], visibility_timeout: 2s}
jobs:
  keep: {kind: copy, from: {table: Accounts}, to: {table: Kept}}
  keep2: {kind: copy, from: {table: Accounts}, to: {table: Kept2}}
  thin: {kind: delete, table: Accounts, partition_key: b}
YAML
    awk 'BEGIN { for (i = 0; i < 160; i++)
        printf "{\"PartitionKey\":\"%s\",\"RowKey\":\"%d\"}\n",
            i < 20 ? "a" : "b", i }' >accounts.jsonl
    run 0 import Accounts accounts.jsonl --config accepting.yaml
    run 0 run keep --yes --config accepting.yaml
    run 0 run keep2 --yes --config accepting.yaml
    run 0 run thin --yes --config accepting.yaml
}

# refused_alike REASON JOB OPTION ...: the run is refused for this reason, and a
# dry run prints the same reason; run.err gets the last line of the run.
refused_alike() {
    reason=$1
    shift
    run 1 run "$@" --yes
    last_says "$reason"
    tail -n 1 err >run.err
    run 0 run "$@" --dry-run
    prints '^dry run: nothing was written$'
    sed -n 's/^the run would be refused: //p' out >why
    [ -s why ] || fail "it does not say that the run would be refused"
    grep -qF "$(cat why)" run.err || fail "the run is refused for another reason"
}

# Once, the dry run did not print this.
a_dry_run_says_that_the_run_would_be_refused() {
    accepting
    refused_alike '140 of 160 copies have no source' keep --config accepting.yaml
    run 0 run keep --dry-run --accept-deletes --config accepting.yaml
    grep -q refused out && fail "the accepted deletes would be refused"
    run 0 count Kept --config accepting.yaml
    prints '^160$'
    sed 's/{table: Kept}/{table: Kept, row_key: "x{RowKey}"}/' accepting.yaml >former.yaml
    refused_alike 'copies made by earlier key templates' keep --config former.yaml
    run 0 run keep --dry-run --accept-deletes --config former.yaml
    grep -q refused out && fail "former copies would be refused"
    # A job that `finish` has closed.
    rm -f following.db*
    following following.yaml x '{name: tableward}'
    run 0 import Accounts anna.jsonl --config following.yaml
    run 0 run keep --dry-run --config following.yaml
    grep -q refused out && fail "a job without a run is closed"
    run 0 enqueue keep --id r1 --config following.yaml
    run 0 finish r1 --config following.yaml
    run 0 worker --drain --config following.yaml
    refused_alike 'job keep was closed by the `finish` of run r1' keep --config following.yaml
    run 0 run keep --dry-run --reopen --config following.yaml
    grep -q refused out && fail "a job that is opened again would be refused"
    # The job now has another name.
    sed 's/keep:/renamed:/' following.yaml >renamed.yaml
    refused_alike 'was closed by the `finish` of run keep/r1' renamed --config renamed.yaml
    run 0 run renamed --dry-run --reopen --config renamed.yaml
    grep -q refused out && fail "tables that are opened again would be refused"
}

# Once, the dry run showed a plan, and the run was refused.
a_dry_run_says_that_the_steps_of_an_upgrade_have_changed() {
    cat >steps.yaml <<'END'
stores: {main: {embedded: steps.db}}
jobs:
  v2:
    kind: schema-upgrade
    table: Ratings
    version: {property: V, absent: 1}
    versions:
      - {to: 2, steps: [{rename: {property: Rating, to: Score}}]}
END
    echo '{"PartitionKey":"p","RowKey":"1","Rating":5}' >ratings.jsonl
    run 0 --config steps.yaml import Ratings ratings.jsonl
    run 0 --config steps.yaml run v2 --dry-run
    grep -q 'refused\|unknown' out err && fail "the first run would be refused"
    run 0 --config steps.yaml run v2 phase=expand --yes
    run 0 --config steps.yaml run v2 phase=contract --dry-run
    prints '^Ratings: 1 entity, 1 batch'
    grep -q refused out && fail "a contract after its expand would be refused"
    sed 's/Score/Points/' steps.yaml >changed.yaml
    refused_alike 'the steps of version 2 have changed' v2 phase=contract --config changed.yaml
    prints '^Ratings: 1 entity, 1 batch'
    sed 's/property: V/property: W/' steps.yaml >other.yaml
    refused_alike 'had their version in property V' v2 phase=contract --config other.yaml
}

# Once, --accept-deletes was ignored for such a run, without a message.
deletes_are_accepted_of_a_run_that_exists() {
    accepting
    run 1 run keep --yes --id r1 --config accepting.yaml
    run 1 run keep --yes --id r1 --accept-deletes --config accepting.yaml
    says '^tableward: --accept-deletes changes nothing for run r1, which has ended: leave --id out, to start another run$'
    last_says 'run r1 is failed: 140 of 160 copies have no source'
    run 0 poison retry r1 --config accepting.yaml
    run 0 enqueue keep --id r1 --accept-deletes --config accepting.yaml
    run 0 worker --drain --config accepting.yaml
    run 0 count Kept --config accepting.yaml
    prints '^20$'
    run 0 enqueue keep2 --id r2 --config accepting.yaml
    run 0 run keep2 --yes --id r2 --accept-deletes --config accepting.yaml
    run 0 count Kept2 --config accepting.yaml
    prints '^20$'
    # The present round of a run that is being executed does not use the option.
    run 0 enqueue keep --id r3 --config accepting.yaml
    cat >owned.jsonl <<'LINES'
{"PartitionKey":"keep","RowKey":"r3","State":"running","Owner":"other","LeaseUntil@odata.type":"Edm.DateTime","LeaseUntil":"2999-01-01T00:00:00Z"}
LINES
    run 0 import TablewardRuns owned.jsonl --on-conflict merge --config accepting.yaml
    run 0 enqueue keep --id r3 --accept-deletes --config accepting.yaml
    says 'run r3 is being executed: --accept-deletes counts for the next round that it begins'
    run 0 export TablewardRuns - --filter "RowKey eq 'r3'" --config accepting.yaml
    prints '"AcceptDeletes":true'
}

a_store_that_is_not_there_is_69() {
    secret=c2VjcmV0LXNlY3JldA==
    end=http://127.0.0.1:9/devstoreaccount1
    cat >down.yaml <<YAML
default_store: cloud
stores:
  main: {embedded: tableward.db}
  cloud:
    azure:
      connection_string: "AccountName=devstoreaccount1;AccountKey=$secret;TableEndpoint=$end;QueueEndpoint=$end"
jobs:
  purge: {kind: delete, table: Blogs, all: true}
YAML
    run 69 count Blogs --config down.yaml
    says 'store cloud: .*127.0.0.1.*check'
    run 69 run purge --dry-run --config down.yaml
    says 'store cloud: .*127.0.0.1.*check'
    grep -q "$secret" out err && fail "a key is shown"
    AZURE_STORAGE_CONNECTION_STRING="AccountName=devstoreaccount1;AccountKey=$secret;TableEndpoint=$end;QueueEndpoint=$end"
    export AZURE_STORAGE_CONNECTION_STRING
    mv tableward.yaml kept.yaml
    run 69 export Blogs
    silent
    run 69 census Blogs
    silent
    run 78 status
    says 'no configuration'
    mv kept.yaml tableward.yaml
    unset AZURE_STORAGE_CONNECTION_STRING
}

# A program may parse all of standard error, also the error that ends the
# command.
errors_are_json_lines_where_the_log_is() {
    run 64 --log-format json stauts
    last_says '"level":"error","object":"tableward","message":"unknown command'
    run 64 status --bogus --log-format=json
    last_says '^{"time":.*"message":"unknown option .*"}$'
    run 78 check --config missing.yaml --log-format json
    last_says '^{"time":.*"level":"error".*missing.yaml.*"}$'
    { cat tableward.yaml && echo 'colour: red'; } >wrong.yaml
    run 78 check --config wrong.yaml --log-format json
    last_says '"object":"configuration","message":"wrong.yaml:[0-9]*:1: .*colour'
    run 1 cancel none --log-format json
    last_says '"level":"error","object":"tableward","message":".*none'
    run 0 enqueue delete-channel channel=Json --log-format json
    run 0 worker --drain --log-format json
    says '"run":"[^"]*","attempt":1,"args":{"channel":"Json"},"store":"main"'
    says '"message":"succeeded: .*"duration_ms":[0-9]+,"read":[0-9]+,"written":'
    grep -v '^{.*}$' err && fail "a line of the log is no JSON"
    : >err
}

# killed SIGNAL COMMAND ...: runs the command in the folder cores without a
# limit of core files, ends it by the signal, and sets $cores to the files that
# it left.
killed() {
    signal=$1
    shift
    # shellcheck disable=SC3045 # dash has ulimit -c
    (cd cores && ulimit -c unlimited && exec "$@") >out 2>err </dev/null &
    pid=$!
    wait_until grep -q "^$(basename "$1")" "/proc/$pid/comm" # not sh any more
    if [ "$1" = "$program" ]; then
        wait_for_handler "$pid"
        shows_no_secret "$pid"
    fi
    kill -s "$signal" "$pid"
    wait "$pid" 2>/dev/null
    cores=$(find cores -name '*core*' -type f -exec rm {} \; -print)
}

# Only root can read the worker's environment, because the process may not be
# dumped.
shows_no_secret() {
    grep -q '^Max core file size  *0  *0 ' "/proc/$1/limits" ||
        fail "the worker may leave a core file"
    for file in environ cmdline; do
        ! grep -aq AccountKey "/proc/$1/$file" 2>/dev/null ||
            fail "/proc/PID/$file has the secret"
    done
}

# Another program, killed the same way, shows whether core files can be seen here.
a_killed_worker_leaves_no_core() {
    mkdir cores
    printf 'AccountName=acc;AccountKey=%s\n' \
        "$(head -c 64 /dev/zero | base64 -w 0)" >cores/secret
    cat >cores/t.yaml <<'END'
default_store: main
stores:
  main: {embedded: t.db}
  cloud: {azure: {connection_string_file: secret}}
worker: {queues: [{name: work}]}
jobs:
  purge: {kind: delete, store: cloud, table: Blogs, all: true}
END
    for signal in ABRT SEGV; do
        killed "$signal" sleep 60
        if [ -z "$cores" ]; then
            echo "skipped: no program leaves a core file here"
            return
        fi
        killed "$signal" "$program" worker --config t.yaml
        [ -z "$cores" ] || fail "SIG$signal leaves $cores"
        passed=$((passed + 1))
    done
}

signals_stop_and_reload_the_worker() {
    : >out
    "$program" worker 2>err &
    pid=$!
    wait_for ready err
    cp tableward.yaml good.yaml
    echo 'colour: red' >>tableward.yaml
    kill -HUP "$pid"
    wait_for 'old configuration stays' err
    grep -q "tableward.yaml:[0-9]*:1: .*colour" err ||
        fail "a wrong configuration is refused without its mistakes"
    cp good.yaml tableward.yaml
    kill -HUP "$pid"
    wait_for 'was read again' err
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
}

# The configuration is changed while a run works that would take minutes at its
# first rate.
a_reload_changes_rate_slots_and_log_level() {
    cat >rates.yaml <<'YAML'
stores: {main: {embedded: rates.db}}
worker: {queues: [{name: work}], slots: 1, log_level: warn}
jobs:
  purge: {kind: delete, args: [key], table: Blogs, partition_key: "{key}", max_entities_per_second: 5}
YAML
    blogs p 1500 >rates.jsonl
    run 0 import Blogs rates.jsonl --config rates.yaml
    run 0 enqueue purge key=p --id slow --config rates.yaml
    run 0 enqueue purge key=q --id beside --config rates.yaml
    : >err
    "$program" worker --config rates.yaml 2>err &
    pid=$!
    until "$program" status slow --config rates.yaml | grep -q running; do
        sleep 0.1
    done
    [ -s err ] && fail "log_level: warn logs what is less"
    sed 's/slots: 1/slots: 2/; s/_second: 5/_second: 100000/; s/warn/debug/' \
        rates.yaml >new.yaml
    cp new.yaml rates.yaml
    kill -HUP "$pid"
    wait_for 'configuration reloaded: 2 slots' err
    wait_for 'run purge/beside: succeeded' err
    wait_for 'run purge/slow: succeeded: .* 1500 deleted' err
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
    "$program" worker --config rates.yaml --log-level error 2>err &
    pid=$!
    wait_for_handler "$pid"
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
    [ -s err ] && fail "--log-level does not count more than log_level"
}

# A worker's start waits only for the store of queues and ledger. Here the store
# of one job does not respond, and a run of another job succeeds.
a_dead_store_of_a_job_delays_no_start() {
    cat >partly.yaml <<'YAML'
stores:
  main: {embedded: partly.db}
  dead: {azure: {connection_string: "AccountName=a;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:1/a;QueueEndpoint=http://127.0.0.1:1/a"}}
default_store: main
worker: {queues: [{name: work}]}
jobs:
  purge: {kind: delete, table: Blogs, all: true}
  dead: {kind: delete, store: dead, table: Blogs, all: true}
YAML
    echo '{"PartitionKey":"p","RowKey":"r"}' >one.jsonl
    run 0 import Blogs one.jsonl --config partly.yaml
    run 0 enqueue dead --id d1 --config partly.yaml
    run 0 enqueue purge --id p1 --config partly.yaml
    : >err
    "$program" worker --config partly.yaml 2>err &
    pid=$!
    wait_for "worker: ready: 16 slots, 1 queue of store 'main'" err
    wait_for 'run purge/p1: succeeded' err
    wait_for 'run dead/d1: is held, but has not failed: .*connect to 127.0.0.1' err
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
}

# The worker polls once an hour, but it watches the file, also after a reload.
what_another_process_enqueues_is_taken_at_once() {
    cat >watched.yaml <<'YAML'
stores: {main: {embedded: watched.db}}
default_store: main
worker: {queues: [{name: work}], poll: {min: 1h, max: 1h}}
jobs:
  purge: {kind: delete, table: Blogs, all: true}
YAML
    echo '{"PartitionKey":"p","RowKey":"r"}' >one.jsonl
    run 0 import Blogs one.jsonl --config watched.yaml
    : >err
    "$program" worker --config watched.yaml 2>err &
    pid=$!
    wait_for ready err
    "$program" enqueue purge --id first --config watched.yaml >out 2>&1
    wait_for 'purge/first: succeeded' err
    kill -HUP "$pid"
    wait_for 'configuration reloaded' err
    "$program" enqueue purge --id second --config watched.yaml >out 2>&1
    wait_for 'purge/second: succeeded' err
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
}

# get PATH: writes the worker's response to the file out; the last line is its
# status.
get() {
    curl -s --max-time 20 -w '\n%{http_code}' "http://127.0.0.1:$port$1" >out
}

# Starts a worker that listens; sets $pid and $port.
start_listening() {
    : >err
    "$program" worker --config listens.yaml 2>err &
    pid=$!
    wait_for ready err
    port=$(sed -n 's/.*listens on .* (port \([0-9]*\)).*/\1/p' err)
}

a_worker_that_listens_is_watched() {
    cat >listens.yaml <<'YAML'
stores: {main: {embedded: listens.db}}
default_store: main
worker:
  queues: [{name: work}]
  listen: 127.0.0.1:0
jobs:
  purge:
    kind: cascade-delete
    args: [channel]
    archive: listened
    settle: 0s
    parent: {table: Channels, partition_key: "{channel}", row_key: "", tombstone: {Deleted: true}}
    children: [{table: Blogs, partition_key: "{channel}"}]
YAML
    blogs Football 7 >blogs.jsonl
    echo '{"PartitionKey":"Football","RowKey":""}' >channel.jsonl
    run 0 import Blogs blogs.jsonl --config listens.yaml
    run 0 import Channels channel.jsonl --config listens.yaml
    start_listening
    last='the worker that listens'
    get /livez
    prints '^the worker is alive$'
    prints '^200$'
    get /readyz
    prints '^messages are received from 1 of 1 queue$'
    prints '^200$'
    get /metrics
    prints '^tableward_ready 1$'
    prints '^tableward_runs_ended_total\{job_name="purge",result="succeeded"\} 0$'
    "$program" enqueue purge channel=Football --id secret-id \
        --config listens.yaml >out 2>&1
    wait_for 'purge/secret-id: succeeded' err
    tries=0
    until [ "$tries" -ge 100 ] || { get /metrics &&
        grep -q '^tableward_queue_messages{queue="work"} 0$' out; }; do
        tries=$((tries + 1))
        sleep 0.1
    done
    prints '^tableward_queue_messages\{queue="work"\} 0$'
    prints '^tableward_runs_ended_total\{job_name="purge",result="succeeded"\} 1$'
    prints '^tableward_run_entities_total\{job_name="purge",action="deleted"\} 8$'
    prints '^tableward_store_requests_total\{store="main",operation="batch",outcome="ok"\} [1-9]'
    prints '^tableward_archive_free_bytes\{job_name="purge"\} [1-9]'
    prints '^process_resident_memory_bytes [1-9]'
    ! grep -Eq 'Football|secret-id|b[0-6]"' out || fail "a metric has a key"
    if command -v "$promtool" >/dev/null; then
        sed '$d' out | "$promtool" check metrics >checked 2>&1 ||
            fail "promtool check metrics says: $(cat checked)"
    else
        echo "skipped: no promtool; \`tests/deps lint\` gets it"
    fi
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker that listens with $?"
    curl -s --max-time 5 "http://127.0.0.1:$port/livez" >out &&
        fail "the port is open after the end"
}

# `systemctl reload` runs check first. So check must refuse what the worker
# would refuse.
check_reads_the_files_of_credentials() {
    cat >held.yaml <<'YAML'
default_store: main
stores:
  main: {embedded: held.db}
  cloud: {azure: {connection_string_file: held.string}}
  other: {azure: {account: myaccount, key_file: held.key}}
YAML
    run 0 check --config held.yaml
    prints '^held.yaml is valid, 3 stores'
    says 'held.yaml:4:[0-9]*: warning: store cloud: .*/held.string was not checked'
    says 'held.yaml:5:[0-9]*: warning: store other: .*/held.key was not checked'
    : >held.string
    echo 'a;b' >held.key
    run 78 check --config held.yaml
    says 'held.yaml:4:[0-9]*: store cloud: connection_string_file .*/held.string is empty'
    says 'held.yaml:5:[0-9]*: store other: key_file .*/held.key holds more than a key'
    echo 'AccountName=myaccount' >held.string
    echo a2V5 >held.key
    run 78 check --config held.yaml
    says 'held.yaml:4:[0-9]*: store cloud: '
    ! grep -q 'store other' err || fail "a key is refused"
    echo 'AccountName=myaccount;AccountKey=a2V5' >held.string
    run 0 check --config held.yaml
    ! grep -q . err || fail "a good credential is warned of"
}

# Each wrong address is refused with a sentence that says what to do.
a_wrong_listen_is_refused() {
    sed 's/listen: .*/listen: example.com:9464/' listens.yaml >wrong.yaml
    run 78 worker --config wrong.yaml
    says 'wrong.yaml:5:11: listen: invalid address .example.com:9464.: write an IP address and a port'
    run 78 check --config wrong.yaml
    sed 's/listen: .*/listen: 192.0.2.1:9464/' listens.yaml >wrong.yaml
    run 69 worker --config wrong.yaml
    says 'cannot listen on 192.0.2.1:9464: '
    start_listening
    sed "s/listen: .*/listen: 127.0.0.1:$port/" listens.yaml >wrong.yaml
    run 69 worker --config wrong.yaml
    says "cannot listen on 127.0.0.1:$port: another process uses the port"
    kill -TERM "$pid"
    wait "$pid"
    sed 's/listen: .*/listen: 0.0.0.0:0/' listens.yaml >open.yaml
    run 0 worker --drain --config open.yaml
    says 'warn .*other machines can connect to 0.0.0.0:0, without TLS'
    run 0 worker --drain --config listens.yaml
    ! grep -q 'other machines' err || fail "loopback is warned of"
}

the_admin_token_is_looked_for_at_the_start() {
    sed 's/listen: .*/listen: 127.0.0.1:0\n  admin_token_file: token/' \
        listens.yaml >token.yaml
    run 78 worker --drain --config token.yaml
    says 'admin_token_file .*/token cannot be read: No such file'
    run 0 status --config token.yaml
    : >token
    run 78 worker --drain --config token.yaml
    says 'admin_token_file .*/token is empty'
    echo secret-admin-token >token
    run 0 worker --drain --config token.yaml --log-level debug
    ! grep -q secret-admin-token err || fail "the token is logged"
    sed -i 's/_file: token/_file: "${NOT_SET_ANYWHERE}\/token"/' token.yaml
    run 78 worker --drain --config token.yaml
    says 'token.yaml:6:[0-9]*: admin_token_file needs the environment variable NOT_SET_ANYWHERE'
    run 0 status --config token.yaml
}

a_reload_is_seen_in_the_metrics() {
    start_listening
    last='the worker that listens'
    cp listens.yaml good.yaml
    echo 'colour: red' >>listens.yaml
    kill -HUP "$pid"
    wait_for 'old configuration stays' err
    get /metrics
    prints '^tableward_config_last_reload_successful 0$'
    sed 's/listen: .*/listen: 127.0.0.1:1/' good.yaml >listens.yaml
    kill -HUP "$pid"
    wait_for 'changes of .listen. and .admin_token_file. take effect' err
    wait_for 'configuration reloaded' err
    get /metrics
    prints '^tableward_config_last_reload_successful 1$'
    prints '^tableward_ready 1$'
    # Valid, and refused because Cosmos DB has no queues to receive from.
    sed 's|main: {embedded: .*}|main: {azure: {connection_string: "AccountName=a;AccountKey=a2V5;TableEndpoint=https://a.table.cosmos.azure.com:443/"}}}|' \
        good.yaml >listens.yaml
    kill -HUP "$pid"
    wait_for "is refused, and the old one stays: store 'main' has no queues" err
    get /metrics
    prints '^tableward_config_last_reload_successful 0$'
    prints '^tableward_ready 1$'
    cp good.yaml listens.yaml
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends the worker with $?"
}

# stopped_early ARGUMENT ...: sends SIGTERM to a command that still reads its
# configuration, from a pipe that never sends it.
stopped_early() {
    "$program" --config early.yaml "$@" >out 2>err &
    pid=$!
    exec 3>early.yaml
    kill -TERM "$pid"
    (sleep 5 && kill -KILL "$pid") 3>&- 2>/dev/null &
    killer=$!
    wait "$pid"
    code=$?
    kill "$killer" 2>/dev/null
    exec 3>&-
    return "$code"
}

a_signal_that_comes_early_is_not_lost() {
    mkfifo early.yaml
    stopped_early worker || fail "an early SIGTERM ends the worker with $?"
    stopped_early run delete-channel channel=z --yes
    [ $? -eq 75 ] || fail "an early SIGTERM does not end run with 75"
}

# The store may be created after `status --watch` was started.
status_watches_a_store_that_comes_later() {
    sed 's/tableward.db/later.db/' tableward.yaml >later.yaml
    : >watched
    "$program" --config later.yaml status --watch >watched 2>/dev/null &
    pid=$!
    wait_for 'no runs' watched
    run 0 --config later.yaml enqueue delete-channel channel=a
    wait_for '^delete-channel .* queued' watched
    kill -TERM "$pid"
    wait "$pid" || fail "SIGTERM ends status --watch with $?"
}

# On a terminal of 8 lines `status --watch` shows the queues, the headings, and
# the newest runs that fit.
status_watch_is_one_screen() {
    cat >screen.yaml <<'YAML'
stores: {main: {embedded: screen.db}}
worker: {queues: [{name: one}, {name: two}]}
jobs:
  purge: {kind: delete, args: [key], table: Blogs, partition_key: "{key}"}
YAML
    for key in a b c d e f g h; do
        run 0 enqueue purge "key=$key" --config screen.yaml
    done
    : >watched
    script -qfc "stty rows 8 cols 60; exec '$program' status --watch \
        --config screen.yaml" watched >/dev/null 2>&1 </dev/null &
    pid=$!
    wait_for 'key=h.*' watched
    wait_for '?7h' watched
    kill -TERM "$pid"
    wait "$pid"
    sed '/?7h/,$d' watched >once
    [ "$(grep -c '^purge .*queued' once)" -eq 4 ] ||
        fail "status --watch shows other than the four runs that fit"
}

# make_failed: makes three failed runs of two jobs; two of the runs have the
# same id.
make_failed() {
    rm -rf failed.db*
    cat >failed.yaml <<'YAML'
stores: {main: {embedded: failed.db}}
worker: {queues: [{name: failed}]}
jobs:
  a: {kind: copy, from: {table: Nowhere}, to: {table: OneCopy}}
  b: {kind: copy, from: {table: Nowhere}, to: {table: OtherCopy}}
YAML
    for run in a/same b/same a/only; do
        run 0 enqueue "${run%/*}" --id "${run#*/}" --config failed.yaml
    done
    run 1 worker --drain --config failed.yaml
}

# Options that select runs are not ignored if an ID is given: after a mistake
# another run would be dropped.
an_id_is_that_of_the_job_which_is_named() {
    make_failed
    run 1 poison drop only --job b --config failed.yaml
    says "no run 'only'"
    run 64 poison drop only --queue failed --config failed.yaml
    says 'with an ID takes no --queue'
    run 64 poison retry only --since 1d --config failed.yaml
    run 1 poison show same --config failed.yaml
    says 'write one of these names'
    run 0 poison show same --job b --config failed.yaml
    prints '^job +b$'
    run 0 poison drop same --job a --config failed.yaml
    run 0 poison list --all --config failed.yaml
    prints ' b  same  '
    prints ' a  only  '
    [ "$(grep -c . out)" -eq 2 ] || fail "another run is dropped"
}

failing_runs_are_as_many_as_asked_for() {
    make_failed
    run 1 status --failing --limit 1 --config failed.yaml
    [ "$(grep -c ' failed ' out)" -eq 1 ] || fail "--limit 1 prints more"
    says '^tableward: 3 runs are failed'
    run 1 status --failing --since 1h --config failed.yaml
    run 0 status --failing --since 0 --config failed.yaml
    run 64 status --failing --state failed --config failed.yaml
    says 'takes no --state'
}

# On a terminal of 5 lines the command shows the headings, one run and the
# number of runs, and draws them again and again.
status_watch_of_failing_runs_goes_on() {
    make_failed
    : >watched
    script -qfc "stty rows 5 cols 60; exec '$program' status --watch \
        --failing --config failed.yaml" watched >/dev/null 2>&1 </dev/null &
    pid=$!
    wait_until is_drawn_again || fail "the screen is drawn once"
    kill -TERM "$pid"
    wait "$pid"
    sed '/?7h/,$d' watched >once
    [ "$(grep -c ' failed ' once)" -eq 1 ] ||
        fail "status --watch --failing shows other than the run that fits"
}

is_drawn_again() { [ "$(grep -c '?7h' watched)" -ge 2 ]; }

# A run that waits for its settle pass is stopped, and continued later.
a_stopped_run_is_75_and_goes_on() {
    sed 's/settle: 0s/settle: 3s/' tableward.yaml >late.yaml
    "$program" --config late.yaml run delete-channel channel=e --yes \
        --id stopped >out 2>err &
    pid=$!
    wait_for 'waits until' err
    kill -INT "$pid"
    wait "$pid"
    [ $? -eq 75 ] || fail "SIGINT does not end run with 75"
    last_says 'continues it'
    run 0 --config late.yaml run delete-channel channel=e --yes --id stopped
    prints '^succeeded'
}

# Nothing is deleted that is not in the archive.
an_archive_that_may_not_be_written_fails_the_run() {
    sed 's|#archive: archive|archive: /dev/null/archive|' tableward.yaml \
        >nodisk.yaml
    run 1 --config nodisk.yaml run delete-channel channel=f --yes --id kept
    says 'failed: archive: cannot .*/dev/null/archive'
    run 0 run delete-channel channel=f --yes --id kept2
    prints '^succeeded'
}

# The steps of jobs/GUIDE.md. An application changed blog 1 after it was
# archived, so that it was archived again; then the application inserted blog 2
# again.
an_archive_is_restored_as_the_guide_says() {
    file=restored/delete-channel/spring/1-Blogs.jsonl

    sed 's|#archive: archive|archive: restored|' tableward.yaml >archived.yaml
    for i in 1 2 3; do
        echo "{\"PartitionKey\":\"g\",\"RowKey\":\"$i\",\"Title\":\"old\"}"
    done >spring.jsonl
    run 0 import Blogs spring.jsonl
    run 0 --config archived.yaml run delete-channel channel=g --yes --id spring
    echo '{"PartitionKey":"g","RowKey":"1","Title":"new"}' >>"$file"
    echo '{"PartitionKey":"g","RowKey":"2","Title":"again"}' >again.jsonl
    run 0 import Blogs again.jsonl
    run 1 import Blogs "$file" --on-error skip
    says '^tableward: 2 lines were rejected'
    grep -v '"RowKey":"2"' "$file.rejected" >wanted.jsonl
    run 0 import Blogs wanted.jsonl --on-conflict replace
    run 0 export Blogs - --filter "PartitionKey eq 'g'"
    prints '"RowKey":"1","Title":"new"'
    prints '"RowKey":"2","Title":"again"'
    prints '"RowKey":"3","Title":"old"'
}

# The dry run and the run report, with their keys, the entities that cannot be
# upgraded. Once these are corrected, the failed run continues.
an_upgrade_is_shown_done_and_mended() {
    cat >upgrade.yaml <<'END'
stores: {main: {embedded: upgrade.db}}
worker: {queues: [{name: work}]}
jobs:
  v2:
    kind: schema-upgrade
    table: Ratings
    version: {property: V, absent: 1}
    versions:
      - {to: 2, steps: [{retype: {property: Rating, to: Edm.Double}}]}
END
    printf '{"PartitionKey":"p","RowKey":"%s","Rating":%s}\n' 1 5 2 '"5"' \
        x '"five"' y '"six"' >ratings.jsonl
    run 0 --config upgrade.yaml import Ratings ratings.jsonl
    run 0 --config upgrade.yaml export Ratings before.jsonl
    run 0 --config upgrade.yaml run v2 --dry-run
    prints '^Ratings: 2 entities, 1 batch'
    prints '^version 2, retype Rating: changes 2$'
    prints '^would fail: 2$'
    prints "^  'p' / 'x': version 2, retype Rating: .* not a number"
    run 0 --config upgrade.yaml export Ratings after.jsonl
    cmp -s before.jsonl after.jsonl || fail "a dry run changes the table"
    run 64 --config upgrade.yaml run v2
    run 1 --config upgrade.yaml run v2 --yes --id up
    last_says '2 entities cannot be brought to version 2'
    run 0 --config upgrade.yaml status up
    prints "^ +Ratings 'p' / 'x': "
    prints "^ +Ratings 'p' / 'y': "
    prints '^rounds +2$'
    echo '{"PartitionKey":"p","RowKey":"x","Rating":7}' >corrected.jsonl
    echo '{"PartitionKey":"p","RowKey":"y","Rating":8}' >>corrected.jsonl
    run 0 --config upgrade.yaml import Ratings corrected.jsonl \
        --on-conflict replace
    run 0 --config upgrade.yaml poison retry up
    run 0 --config upgrade.yaml run v2 --yes --id up
    run 0 --config upgrade.yaml census Ratings --version-property V --json
    prints '"Versions":\[\{"Version":2,"Entities":4\}\]'
    prints '"Edm.Double":4'
}

# The cases in their order. After the name of a case: the cases that create what
# it needs (the configuration that `init` writes, tables, files, runs).
cases() {
    cat <<'END'
usage_is_64_and_names_the_nearest
help_is_everywhere
help_says_what_a_configuration_may_hold
no_configuration_is_78
init_writes_what_works
check_online_wants_what_the_jobs_need
check_online_finds_a_ledger_left_behind
check_reads_the_files_of_credentials
check_warns_of_one_account_under_two_hosts
a_time_namespace_moves_no_clock check_online_wants_what_the_jobs_need
every_mistake_is_said_at_once
an_unset_variable_counts_where_it_is_needed
a_variable_that_holds_nothing_selects_nothing
enqueue_names_the_file_that_it_makes init_writes_what_works
import_and_export_are_inverse init_writes_what_works
every_type_comes_back_as_it_was init_writes_what_works
one_content_gives_one_file every_type_comes_back_as_it_was
a_census_is_exact import_and_export_are_inverse
a_census_refuses_what_it_cannot_count a_census_is_exact
import_says_which_line init_writes_what_works
rejected_lines_can_be_corrected init_writes_what_works
rejected_lines_are_not_lost_to_another_import import_says_which_line
a_rejects_file_that_was_edited_is_not_truncated init_writes_what_works
an_import_whose_id_is_taken_over_ends_with_75 init_writes_what_works
csv_is_read_as_storage_explorer_writes_it rejected_lines_can_be_corrected
csv_is_written_as_it_is_read every_type_comes_back_as_it_was csv_is_read_as_storage_explorer_writes_it
a_write_that_waits_is_stopped_within_5_s init_writes_what_works
import_meets_what_is_there init_writes_what_works
import_with_an_id_happens_once import_and_export_are_inverse import_says_which_line
an_export_with_an_id_continues a_census_refuses_what_it_cannot_count
a_new_file_is_readable_by_its_owner_alone import_and_export_are_inverse
an_export_keeps_the_mode_and_the_link_of_what_it_replaces import_and_export_are_inverse
a_file_of_a_store_is_no_file_to_write import_and_export_are_inverse
a_store_file_with_two_hard_links_is_refused import_and_export_are_inverse
a_copy_of_a_store_file_is_refused_beside_it import_and_export_are_inverse
a_store_file_that_is_mounted_alone_is_refused import_and_export_are_inverse
an_import_that_waits_for_a_pipe_is_stopped init_writes_what_works
an_import_continues_with_the_same_file_only init_writes_what_works
what_cannot_be_written_is_noticed import_and_export_are_inverse
a_closed_stream_is_nobody_elses init_writes_what_works
tables_of_the_job init_writes_what_works
arguments_are_checked init_writes_what_works
verify_says_what_it_cannot_check init_writes_what_works
verify_reads_a_filter_however_it_is_written
verify_looks_below_the_first_level
convert_is_a_filter
former_names_are_told_with_the_present_ones
a_run_is_asked_for_and_happens_once import_and_export_are_inverse tables_of_the_job
a_message_is_worked_on a_run_is_asked_for_and_happens_once
a_run_is_cancelled a_message_is_worked_on
a_tombstone_is_said_to_stay tables_of_the_job
a_run_is_paused_and_resumed tables_of_the_job
a_run_that_begins_later_is_paused_and_resumed init_writes_what_works
a_run_that_is_stopped_is_paused tables_of_the_job
a_damaged_row_is_shown_beside_the_others tables_of_the_job
status_shows_what_is_asked_for tables_of_the_job
a_run_by_hand_is_retried tables_of_the_job
poison_is_shown_and_retried a_message_is_worked_on a_run_by_hand_is_retried
a_dropped_run_is_left_alone a_run_by_hand_is_retried
a_job_that_would_change_the_ledger_is_refused
a_poisoned_message_is_told_and_dropped tables_of_the_job
one_id_may_be_two_jobs_run
a_poisoned_message_is_found_beside_a_run one_id_may_be_two_jobs_run
a_refused_message_is_not_read_as_another_job_s
a_text_that_no_queue_carries_is_put_as_base64
failed_runs_that_no_worker_can_take_are_not_forgotten a_refused_message_is_not_read_as_another_job_s
open_runs_without_queue_or_job_are_named a_refused_message_is_not_read_as_another_job_s
a_run_of_a_renamed_queue_is_moved a_refused_message_is_not_read_as_another_job_s
finish_says_what_must_happen_before a_refused_message_is_not_read_as_another_job_s
a_changed_definition_is_accepted_by_a_person a_refused_message_is_not_read_as_another_job_s
deletes_are_accepted_of_a_run_that_exists
a_dry_run_says_that_the_run_would_be_refused a_refused_message_is_not_read_as_another_job_s
a_store_that_is_not_there_is_69 init_writes_what_works
errors_are_json_lines_where_the_log_is tables_of_the_job
signals_stop_and_reload_the_worker init_writes_what_works
a_killed_worker_leaves_no_core
a_reload_changes_rate_slots_and_log_level
a_dead_store_of_a_job_delays_no_start
what_another_process_enqueues_is_taken_at_once
a_worker_that_listens_is_watched
a_wrong_listen_is_refused a_worker_that_listens_is_watched
the_admin_token_is_looked_for_at_the_start a_worker_that_listens_is_watched
a_reload_is_seen_in_the_metrics a_worker_that_listens_is_watched
a_signal_that_comes_early_is_not_lost init_writes_what_works
status_watches_a_store_that_comes_later init_writes_what_works
status_watch_is_one_screen
an_id_is_that_of_the_job_which_is_named
failing_runs_are_as_many_as_asked_for
status_watch_of_failing_runs_goes_on
a_stopped_run_is_75_and_goes_on tables_of_the_job
an_upgrade_is_shown_done_and_mended
a_dry_run_says_that_the_steps_of_an_upgrade_have_changed
an_archive_that_may_not_be_written_fails_the_run tables_of_the_job
an_archive_is_restored_as_the_guide_says tables_of_the_job
END
}

# chosen CASE ...: these and all that they need, in the order above; all if none is
# named.
chosen() {
    cases | awk -v names="$*" '
        function want(name,    i, count, list) {
            if (!(name in needs)) {
                print "cli: there is no case " name >"/dev/stderr"
                exit failed = 64
            }
            if (wanted[name]++)
                return
            count = split(needs[name], list, " ")
            for (i = 1; i <= count; i++)
                want(list[i])
        }
        { order[NR] = $1; $1 = ""; needs[order[NR]] = $0 }
        END {
            if (failed) exit failed
            count = split(names, list, " ")
            for (i = 1; i <= count; i++)
                want(list[i])
            for (i = 1; i <= NR; i++)
                if (count == 0 || wanted[order[i]])
                    print order[i]
        }'
}

# The functions of this script that nothing calls: cases that the list lacks.
unlisted() {
    sed -n 's/^\([a-z0-9_]*\)() {.*/\1/p' "$tests/cli.sh" |
        while read -r name; do
            [ "$(grep -cw "$name" "$tests/cli.sh")" -gt 1 ] || echo "$name"
        done
}

list=$(chosen "$@") || exit 64
for name in $(unlisted); do
    echo "cli: $name is neither called nor in the list of cases" >&2
    exit 1
done
for name in $list; do
    "$name"
done
echo "cli: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
