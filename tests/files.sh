#!/bin/sh
# Tests what an operator does with files, on embedded stores in a folder of its
# own: export and import of all tables, read-only copies of a store, disk space
# that a store gives back, and the backups of systemd/BACKUP.md.
#
#   tests/files.sh [PROGRAM]   from the root of the tree; default build/tableward
set -u
suite=files tests=$(readlink -f tests)
program=$(readlink -f "${1:-${TABLEWARD:-build/tableward}}") || exit 1
guide=$(readlink -f systemd/BACKUP.md) || exit 1
# shellcheck source=tests/support/command.sh
. "$tests/support/command.sh"

# wait_for COMMAND ...: waits until the command succeeds, at most 20 s.
wait_for() { wait_until "$@" || fail "this does not come true: $*"; }

blogs() { # blogs CHANNEL COUNT
    awk -v channel="$1" -v count="$2" 'BEGIN { for (i = 0; i < count; i++)
        printf "{\"PartitionKey\":\"%s\",\"RowKey\":\"%04d\",\"Views@odata.type\":\"Edm.Int64\",\"Views\":\"%d\"}\n", channel, i, i }'
}

# configure NAME: writes NAME.yaml, whose store is NAME.db.
configure() {
    cat >"$1.yaml" <<YAML
stores: {main: {embedded: $1.db}}
worker: {queues: [{name: tableward}]}
jobs:
  purge: {kind: delete, table: Blogs, filter: "Views ge 10L"}
  copies: {kind: copy, from: {table: Blogs}, to: {table: Copies}}
YAML
}

make_main() {
    configure main
    TABLEWARD_CONFIG=main.yaml
    export TABLEWARD_CONFIG
    blogs a 1500 >a.jsonl
    run 0 import Blogs a.jsonl
    printf '%s\n' '{"PartitionKey":"a","RowKey":"","N@odata.type":"Edm.Double","N":"NaN"}' >b.jsonl
    run 0 import Channels b.jsonl
    : >empty.jsonl
    run 0 import Empty empty.jsonl
}

tables_are_listed_with_counts() {
    run 0 tables
    printf '%s\n' 'Blogs           1500' 'Channels           1' \
        'Empty              0' | cmp -s - out || fail "tables: $(cat out)"
    run 0 tables --json
    prints '^\[\{"Table":"Blogs","Entities":1500\},\{"Table":"Channels","Entities":1\},\{"Table":"Empty","Entities":0\}\]$'
    run 64 tables Blogs
    run 64 tables --store mian
    says "did you mean 'main'"
}

# There are more tables than names in a page.
many_tables_are_listed() {
    configure many
    run 0 --config many.yaml import Blogs b.jsonl
    sqlite3 many.db "INSERT INTO tables (name) SELECT 'T' || value
        FROM generate_series(1000, 3499)"
    run 0 --config many.yaml tables
    [ "$(wc -l <out)" -eq 2501 ] || fail "not all tables are listed"
    [ "$(sort -u out | wc -l)" -eq 2501 ] || fail "tables are listed twice"
}

all_tables_come_back() {
    run 0 export --all all
    last_says '^tableward: 3 tables exported to all$'
    [ "$(find all -type f | sort | tr '\n' ' ')" = \
        'all/Blogs.jsonl all/Channels.jsonl all/Empty.jsonl ' ] ||
        fail "the files are: $(ls all)"
    [ "$(stat -c '%a' all all/Blogs.jsonl | tr '\n' ' ')" = '700 600 ' ] ||
        fail "others can read the export"
    cmp -s all/Blogs.jsonl a.jsonl || fail "Blogs is exported as it was not"
    configure other
    run 0 --config other.yaml import --all all
    last_says '^tableward: 3 tables imported$'
    run 0 --config other.yaml tables --json
    prints '"Table":"Empty","Entities":0'
    run 0 --config other.yaml export --all again
    diff -r all again >out || fail "the import is not what was exported"
    run 0 --config other.yaml import --all all
    run 0 export --all csv --format csv
    configure third
    run 0 --config third.yaml import --all csv
    run 0 --config third.yaml export --all from-csv
    diff -r all from-csv >out || fail "by CSV it is not what was exported"
}

files_that_exist_are_replaced_with_force_only() {
    cp -r all old
    echo mine >old/Channels.jsonl
    run 64 export --all old
    last_says 'old/Blogs.jsonl exists: --force'
    grep -qx mine old/Channels.jsonl || fail "an export that is refused writes"
    run 0 export --all old --force
    diff -r all old >out || fail "--force does not replace all files"
    echo '{"PartitionKey":"a","RowKey":"1"}' >old/Former.jsonl
    run 0 export --all old --force
    says 'old/Former.jsonl belongs to no table of store main'
    run 64 export --all a.jsonl
    last_says 'a.jsonl is not a folder'
    run 64 export --all
    says 'needs TABLE, or --all and a FOLDER'
    run 64 export --all one two
    run 64 export --all one --filter 'A eq 1'
    [ ! -e one ] || fail "an export that is refused makes its folder"
}

# The export is killed in the middle of Blogs, and then Blogs is deleted. So the
# partial file of Blogs must be removed: it can no longer be continued, but an
# import would take it for one that can.
an_export_of_all_whose_table_is_deleted() {
    (
        ulimit -f 80
        "$program" export --all gone --id e1 >out 2>err </dev/null
        true
    ) 2>/dev/null
    find gone -name 'Blogs.jsonl.e1-*.part' | grep -q . || fail "no part is kept"
    cp main.db kept.db
    sqlite3 main.db "DELETE FROM tables WHERE name = 'Blogs'"
    run 0 export --all gone --id e1
    says 'table Blogs was deleted after this export was interrupted: the file gone/Blogs.jsonl.e1-.*part, with what was read of the table, is removed'
    last_says '2 tables exported to gone'
    [ "$(find gone -name '*Blogs*' -o -name '*.part' -o -name '*.progress')" = '' ] ||
        fail "an export whose table is gone leaves: $(ls gone)"
    cp kept.db main.db
    rm -f main.db-wal main.db-shm
}

# A limit of the file size ends the export by a signal, in the middle of Blogs.
an_export_of_all_continues() {
    mkdir cut
    echo former >cut/Channels.jsonl
    run 0 enqueue purge --id r1
    cp main.db before.db
    (
        ulimit -f 80
        "$program" export --all cut --id e1 --force >out 2>err </dev/null
        true
    ) 2>/dev/null
    [ -e cut/TablewardRuns.jsonl ] || fail "the ledger is not the first"
    [ ! -e cut/Blogs.jsonl ] || fail "an export that was killed is there"
    grep -qx former cut/Channels.jsonl || fail "a file is replaced too early"
    find cut -name 'Blogs.jsonl.e1-*.part' | grep -q . || fail "no part is kept"
    [ -e cut/export-e1.progress ] || fail "no progress is kept"
    run 64 --config other.yaml import --all cut
    last_says 'export that is not complete: continue the export with its --id'
    inode=$(stat -c %i cut/TablewardRuns.jsonl)
    run 0 export --all cut --id e1 --force
    says 'continuing after .a. / '
    last_says '3 tables exported to cut'
    [ "$(stat -c %i cut/TablewardRuns.jsonl)" = "$inode" ] ||
        fail "a table is exported again"
    cmp -s all/Blogs.jsonl cut/Blogs.jsonl || fail "an export that continues is another"
    cmp -s all/Channels.jsonl cut/Channels.jsonl || fail "Channels is not replaced"
    [ "$(find cut -name '*.part' -o -name '*.progress')" = '' ] ||
        fail "a complete export leaves: $(ls cut)"
    run 64 export --all cut --id e1
    [ ! -e cut/export-e1.progress ] || fail "a refused export leaves its progress"
    an_export_of_all_whose_table_is_deleted
    run 64 export --all csv2 --id e1 --format csv
}

# The ledger is not imported: a worker would continue its open runs.
an_import_revives_no_run() {
    configure elsewhere
    run 0 --config elsewhere.yaml import --all cut
    says 'cut/TablewardRuns.jsonl is not imported'
    run 0 --config elsewhere.yaml worker --drain
    run 0 --config elsewhere.yaml status --json
    prints '^\[\]$'
    run 0 --config elsewhere.yaml count Blogs
    prints '^1500$'
}

an_import_of_all_continues() {
    configure broken
    cp -r all wrong
    echo '{"PartitionKey":1}' >wrong/Channels.jsonl
    run 1 --config broken.yaml import --all wrong --id i1
    says 'wrong/Channels.jsonl:1: '
    cp all/Channels.jsonl wrong/Channels.jsonl
    run 0 --config broken.yaml import --all wrong --id i1
    says 'import i1.Blogs has already succeeded'
    says '2 tables imported'
    last_says '1 table skipped: already imported under this id, from the same content'
    run 0 --config broken.yaml import --all wrong --id i1
    says 'import i1.Channels has already succeeded'
    echo '{"PartitionKey":1}' >wrong/Channels.jsonl
    run 1 --config broken.yaml import --all wrong --on-error skip
    last_says '^tableward: lines of 1 table were rejected$'
    says '3 tables imported'
    [ -s wrong/Channels.jsonl.rejected ] || fail "the line is not kept"
}

what_is_no_table_is_said() {
    mkdir odd
    cp all/Empty.jsonl odd/Empty.jsonl
    touch odd/notes.txt
    run 0 --config broken.yaml import --all odd
    says "odd/notes.txt is not imported: its name is not TABLE.jsonl"
    last_says '1 table imported'
    cp all/Blogs.jsonl odd/Blogs.jsonl
    cp all/Blogs.jsonl odd/blogs.jsonl
    run 64 --config broken.yaml import --all odd
    last_says 'Blogs.jsonl and odd/blogs.jsonl are files of one table'
    run 64 export --all odd --force
    last_says 'blogs.jsonl would be files of one table|Blogs.jsonl would be files'
    rm odd/*.jsonl 2>/dev/null
    run 64 --config broken.yaml import --all odd
    last_says 'odd contains no TABLE.jsonl'
    run 64 import --all nowhere
    last_says 'nowhere cannot be read'
}

# Otherwise its table would be missing, although the exit code says that
# everything was imported.
a_file_that_seems_to_be_a_table_is_not_left_out() {
    configure left
    mkdir left
    cp all/Channels.jsonl left/Channels.jsonl
    for name in Blogs.jsonl.gz x.jsonl Blogs.JSON Blogs.csv.bak; do
        touch "left/$name"
        run 64 --config left.yaml import --all left
        says "left/$name is not imported: its name is not TABLE.jsonl"
        last_says "left/$name seems to contain entities, which this import would leave out: uncompress"
        rm "left/$name"
    done
    mkdir left/Folder.jsonl
    run 64 --config left.yaml import --all left
    last_says 'left/Folder.jsonl seems to contain entities'
    rmdir left/Folder.jsonl
    run 0 --config left.yaml tables
    grep -q Channels out && fail "an import that is refused imports a table"
    run 0 --config left.yaml import --all left
    last_says '1 table imported'
}

# The test removes the partial file of Blogs, as an export that SIGTERM ends
# does itself.
an_export_of_all_without_an_id_is_not_taken_for_complete() {
    (
        ulimit -f 80
        "$program" export --all ended >out 2>err </dev/null
        true
    ) 2>/dev/null
    rm ended/Blogs.jsonl.*.part || fail "the export is not ended in Blogs"
    [ -e ended/TablewardRuns.jsonl ] || fail "no table is complete"
    configure whole
    run 64 --config whole.yaml import --all ended
    last_says 'ended/export-@main.progress belongs to an export that is not complete.*repeat the export with --force'
    run 64 export --all ended
    last_says 'ended/TablewardRuns.jsonl exists: --force'
    run 64 --config whole.yaml import --all ended
    cp -r ended ended-2
    for options in '' '--id e2'; do
        # shellcheck disable=SC2086
        run 0 export --all ended --force $options
        last_says '[34] tables exported to ended'
        [ "$(find ended -name '*.progress')" = '' ] ||
            fail "a complete export leaves: $(ls ended)"
        rm -rf ended
        mv ended-2 ended 2>/dev/null
    done
    run 0 export --all ended
    run 0 --config whole.yaml import --all ended
    run 0 --config whole.yaml count Blogs
    prints '^1500$'
}

# ---- read-only copies ----

# find_somebody: sets $somebody to the words that run a command as a user to
# whom permissions apply (none, unless this is root). False: there is no way to
# do so here.
find_somebody() {
    somebody=
    [ "$(id -u)" -eq 0 ] || return 0
    command -v setpriv >/dev/null || return 1
    cp "$program" "$dir/program"
    chmod 711 "$dir"
    chmod 755 "$dir/program"
    somebody='setpriv --reuid 65534 --regid 65534 --clear-groups'
}

# read_copy: checks that commands that only read succeed on the copy, and that
# other commands say why they cannot.
read_copy() {
    own=$program as=$somebody
    [ -z "$as" ] || program=$dir/program
    find read -ls | awk '{ print $3, $7, $NF }' >before
    run 0 --config read/main.yaml status --json
    prints '"Id":"r1","State":"queued"'
    run 0 --config read/main.yaml status r1
    run 0 --config read/main.yaml count Blogs
    prints '^1500$'
    run 0 --config read/main.yaml tables
    prints '^Blogs +1500$'
    run 0 --config read/main.yaml export Blogs -
    cmp -s out a.jsonl || fail "a copy that cannot be written is read wrongly"
    run 0 --config read/main.yaml census Blogs
    run 0 --config read/main.yaml poison list
    run 0 --config read/main.yaml jobs
    run 0 --config read/main.yaml check
    run 1 --config read/main.yaml verify copies
    run 0 --config read/main.yaml run purge --dry-run
    run 69 --config read/main.yaml check --online
    says 'its file cannot be written: a worker cannot use'
    for command in 'import Blogs -' 'enqueue purge' 'run purge --yes' \
        'cancel r1' 'poison retry --all'; do
        # shellcheck disable=SC2086 # several words
        run 69 --config read/main.yaml $command
        last_says 'main.db: it cannot be written: no permission'
    done
    find read -ls | awk '{ print $3, $7, $NF }' | cmp -s - before ||
        fail "reading changes: $(ls -l read)"
    program=$own as=
}

# copy_store FILE ...: copies main.yaml and these files to the folder read,
# without permission to write.
copy_store() {
    mkdir read
    cp main.yaml "$@" read/
    chmod 444 read/*
    chmod 555 read
}

a_copy_that_may_not_be_written_is_read() {
    find_somebody || {
        echo "files: not tested: a copy that cannot be written; there is no setpriv"
        return
    }
    mv main.db now.db
    cp before.db main.db
    copy_store main.db
    read_copy
    rm -rf read
    # A file that may be written, in a folder that may not.
    copy_store main.db
    chmod 666 read/main.db
    read_copy
    rm -rf read
    # The files that a killed process leaves. Only the log (-wal) shows that an
    # entity was deleted.
    for end in '' -wal -shm; do
        echo "cp main.db$end killed.db$end"
    done >copy.sh
    echo '{"PartitionKey":"a","RowKey":"zzzz"}' >more.jsonl
    run 0 import Blogs more.jsonl
    sqlite3 main.db "PRAGMA wal_autocheckpoint = 0;
        DELETE FROM entities WHERE row_key = CAST('zzzz' AS BLOB)" \
        '.shell sh copy.sh' >/dev/null
    for name in killed.db killed.db-wal killed.db-shm; do
        [ -s "$name" ] || fail "there is no $name"
    done
    mv main.db clean.db
    mv killed.db main.db
    mv killed.db-wal main.db-wal
    copy_store main.db main.db-wal
    read_copy
    rm -rf read
    mv killed.db-shm main.db-shm
    copy_store main.db main.db-wal main.db-shm
    read_copy
    rm -rf read main.db-wal main.db-shm
    mv now.db main.db
}

# ---- space ----

size() { stat -c %s "$1"; }
is_small() { [ "$(size "$1")" -lt 3000000 ]; }

an_idle_worker_gives_space_back() {
    configure space
    awk 'BEGIN { x = sprintf("%3000s", ""); gsub(" ", "x", x)
        for (i = 0; i < 4000; i++) printf "{\"PartitionKey\":\"p\",\"RowKey\":\"%04d\",\"Views@odata.type\":\"Edm.Int64\",\"Views\":\"%d\",\"X\":\"%s\"}\n", i, i, x }' >large.jsonl
    run 0 --config space.yaml import Blogs large.jsonl
    run 0 --config space.yaml run purge --yes
    [ "$(size space.db)" -gt 10000000 ] || fail "the file is not large"
    "$program" --config space.yaml worker >out 2>err </dev/null &
    worker=$!
    wait_for is_small space.db
    run 0 --config space.yaml count Blogs
    prints '^10$'
    kill -TERM "$worker"
    wait "$worker" || fail "the worker fails"
    head -n 10 large.jsonl >wanted
    run 0 --config space.yaml export Blogs
    cmp -s wanted out || fail "what was left has changed"
}

# ---- the backups of the guide ----

# guide_does HEADING: runs the commands below this heading of the guide.
guide_does() {
    awk -v heading="### $1" '/^##/ { inside = $0 == heading; next }
        inside && $0 == "```" { code = 0 }
        inside && code
        inside && $0 == "```sh" { code = 1 }' "$guide" >commands
    [ -s commands ] || fail "the guide has no commands: $1"
    PATH="$dir/bin:$PATH" sh -eu commands >out 2>err </dev/null ||
        fail "the guide's commands fail: $1"
}

# Makes stand-ins for the programs that the guide uses, so that no service of
# this machine is changed.
make_programs() {
    mkdir bin
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$program" >bin/tableward
    printf '#!/bin/sh\necho "systemctl $*" >>"%s/systemctl"\n' "$dir" \
        >bin/systemctl
    chmod +x bin/*
}

# In the backup, tables, messages and the ledger are of one moment, although a
# worker runs.
a_backup_of_a_running_store_is_restored() {
    configure live
    TABLEWARD_CONFIG=live.yaml STORE=live.db BACKUP=backup.db
    export TABLEWARD_CONFIG STORE BACKUP
    run 0 import Blogs a.jsonl
    run 0 enqueue purge --id old --delay 1h
    "$program" worker >worker.out 2>worker.err </dev/null &
    worker=$!
    wait_for test -e live.db-shm
    guide_does 'An embedded store, while workers run'
    [ "$(stat -c %a backup.db)" = 600 ] || fail "others can read the backup"
    run 0 run purge --yes --id later
    run 0 count Blogs
    prints '^10$'
    kill -KILL "$worker"
    wait "$worker" 2>/dev/null
    guide_does 'Restoring an embedded store'
    grep -q '^systemctl stop tableward' systemctl || fail "no worker is stopped"
    run 0 count Blogs
    prints '^1500$'
    run 0 status --json
    prints '"Id":"old","State":"queued"'
    grep -q '"Id":"later"' out && fail "a later run is in the older file"
    run 0 status --queues
    prints '1 message'
    [ "$(sqlite3 live.db 'PRAGMA journal_mode')" = wal ] || fail "no log"
}

# The same by a copy of the files of a worker that was killed.
a_backup_of_a_stopped_store_is_restored() {
    rm -rf backup.db* live.db*
    run 0 import Blogs a.jsonl
    guide_does 'An embedded store, with the workers stopped'
    run 0 run purge --yes
    guide_does 'Restoring an embedded store'
    run 0 count Blogs
    prints '^1500$'
}

a_file_of_a_former_release_is_shortened() {
    rm -rf live.db*
    run 0 import Blogs a.jsonl
    sqlite3 live.db 'PRAGMA auto_vacuum = NONE; VACUUM'
    run 0 run purge --yes
    before=$(size live.db)
    guide_does 'Space that an embedded store no longer needs'
    [ "$(size live.db)" -lt "$before" ] || fail "the file is as large as before"
    [ "$(sqlite3 live.db 'PRAGMA auto_vacuum')" = 2 ] || fail "not from now on"
    run 0 count Blogs
    prints '^10$'
}

# On Azure the commands are the same.
a_backup_by_export_is_restored() {
    rm -rf live.db* backup
    FOLDER=backup
    export FOLDER
    run 0 import Blogs a.jsonl
    run 0 enqueue purge --id open
    guide_does 'Any store, Azure too'
    rm -rf live.db*
    guide_does 'Restoring an export'
    run 0 count Blogs
    prints '^1500$'
    run 0 status --json
    grep -q '"Id":"open"' out && fail "the import revives a run"
}

# The ledger names tables by the identity of their file.
a_ledger_is_restored_into_a_new_file() {
    rm -rf live.db* lost
    cp live.yaml steps.yaml
    cat >>steps.yaml <<'YAML'
  up: {kind: schema-upgrade, table: Blogs, version: {property: V, absent: 1}, versions: [{to: 2, steps: [{rename: {property: Views, to: Seen}}]}]}
YAML
    TABLEWARD_CONFIG=steps.yaml FOLDER=lost
    run 0 import Blogs a.jsonl
    run 0 run up --yes
    run 0 run copies --yes
    guide_does 'Any store, Azure too'
    IDENTITY=$(sed -n 's/.*"!steps".*"Account":"\([0-9a-f]\{32\}\)".*/\1/p' \
        lost/TablewardRuns.jsonl)
    export IDENTITY
    rm -rf live.db*
    guide_does 'A new file in place of a lost one'
    guide_does 'Restoring an export'
    run 0 run copies --yes
    sed -i 's/to: Seen/to: Read/' steps.yaml
    run 1 run up --yes
    says 'the steps of version 2 have changed'
    TABLEWARD_CONFIG=live.yaml
}

# The rows of an index name the account in which they were written.
an_index_is_restored_into_another_store() {
    for name in shoes boots; do
        cat >$name.yaml <<YAML
stores: {main: {embedded: $name.db}}
jobs:
  index: {kind: copy, from: {table: Shoes}, to: {table: Shoes, row_key: "size_{Size}_{RowKey}"}}
  away: {kind: move, from: {table: Shoes}, to: {table: Boots}}
YAML
    done
    for i in 1 2 3; do
        echo "{\"PartitionKey\":\"a\",\"RowKey\":\"$i\",\"Size\":$i}"
    done >shoes.jsonl
    run 0 --config shoes.yaml import Shoes shoes.jsonl
    run 0 --config shoes.yaml run index --yes
    run 0 --config shoes.yaml export --all shoes
    run 0 --config boots.yaml import --all shoes
    run 0 --config boots.yaml run index --yes
    prints '^succeeded: 0 deleted, 3 written,'
    run 0 --config boots.yaml count Shoes
    prints '^6$'
    run 0 --config boots.yaml verify index
    run 0 --config boots.yaml run index --yes
    prints '^succeeded: 0 deleted, 0 written,'
    # Without its source a row stays until somebody accepts its delete.
    grep -v '"RowKey":"3"' shoes/Shoes.jsonl >part.jsonl
    rm boots.db*
    run 0 --config boots.yaml import Shoes part.jsonl
    run 1 --config boots.yaml run index --yes
    says '1 former copy would be deleted \(made by .* in another account before an import\)'
    run 0 --config boots.yaml count Shoes
    prints '^5$'
    run 0 --config boots.yaml run index --yes --accept-deletes
    run 0 --config boots.yaml count Shoes
    prints '^4$'
    run 0 --config boots.yaml verify index
    # A move of the table leaves the rows of a restored index where they are.
    rm boots.db*
    run 0 --config boots.yaml import --all shoes --id again
    run 0 --config boots.yaml run away --yes
    run 0 --config boots.yaml count Boots
    prints '^3$'
}

# Otherwise the table's entities would be missing, although the exit code says
# that they were imported.
an_import_of_all_misses_a_table_that_was_deleted() {
    configure again
    run 0 --config again.yaml import --all all --id r1
    sqlite3 again.db "DELETE FROM tables WHERE name = 'Blogs'"
    run 64 --config again.yaml import --all all --id r1
    says 'all/Blogs.jsonl are stored in table Blogs according to import r1.Blogs, but the table does not exist any more'
    run 0 --config again.yaml tables
    grep -q Blogs out && fail "an import that is refused makes the table"
    run 0 --config again.yaml import --all all --id r2
    run 0 --config again.yaml count Blogs
    prints '^1500$'
}

make_main
tables_are_listed_with_counts
many_tables_are_listed
all_tables_come_back
files_that_exist_are_replaced_with_force_only
an_export_of_all_continues
an_import_revives_no_run
an_import_of_all_continues
an_import_of_all_misses_a_table_that_was_deleted
an_index_is_restored_into_another_store
what_is_no_table_is_said
a_file_that_seems_to_be_a_table_is_not_left_out
an_export_of_all_without_an_id_is_not_taken_for_complete
a_copy_that_may_not_be_written_is_read
an_idle_worker_gives_space_back
make_programs
a_backup_of_a_running_store_is_restored
a_backup_of_a_stopped_store_is_restored
a_file_of_a_former_release_is_shortened
a_backup_by_export_is_restored
a_ledger_is_restored_into_a_new_file
echo "files: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
