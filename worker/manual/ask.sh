
# shellcheck shell=sh
# The part of the completions that bash and zsh share. fish runs _tableward_ask
# and the functions below it in sh.
#
# The functions ask the program for what only the program knows: jobs, their
# arguments, runs. Each answer is bounded in time and size, and is empty if the
# program fails, because there is no configuration, or because the store does
# not respond. Only words of characters that have no meaning in a shell are
# offered.

# _tableward_read_line WORD ...: read the words after `tableward` and before the
# one that is being typed. Sets variables that the caller has declared:
#   command             the command
#   argument            its first argument
#   position            position of the argument that is being typed, from 1
#   option              the option whose value is being typed; empty: none
#   _tableward_config   the value of --config
#   word                scratch
_tableward_read_line() {
    command='' argument='' position=1 option='' _tableward_config=''
    for word in "$@"; do
        if [ -n "$option" ]; then
            [ "$option" != --config ] || _tableward_config=$word
            option=
            continue
        fi
        case $word in
        --config=*) _tableward_config=${word#*=} ;;
        -?*) [ -z "$(_tableward_value "$word")" ] || option=$word ;;
        *)
            if [ -z "$command" ]; then
                command=$word
                continue
            fi
            [ "$position" -gt 1 ] || argument=$word
            position=$((position + 1))
            ;;
        esac
    done
}

# _tableward_sorts: print the sorts of word that may be typed now, one a line.
# Call after _tableward_read_line.
_tableward_sorts() {
    if [ -n "$option" ]; then
        _tableward_value "$option"
    elif [ -z "$command" ]; then
        echo COMMAND
    else
        _tableward_words "$command:$position"
    fi
}

# _tableward_offer SORT: print the candidates, one word a line; a tab and a
# description may follow a word. SORT is a word of _tableward_words.
_tableward_offer() {
    case $1 in
    JOB) _tableward_jobs ;;
    NAME=VALUE) [ -z "$argument" ] || _tableward_arguments "$argument" ;;
    ID) _tableward_runs "$command" "$argument" ;;
    Q) _tableward_queues ;;
    TABLE) _tableward_tables ;;
    COMMAND | KIND | KEY) _tableward_list "$1" ;;
    [A-Z]*) ;;
    *) printf '%s\n' "$1" ;;
    esac
}

# Print which configuration to use: the one that the line names, else the
# program's default, but never ./tableward.yaml. Pressing Tab in a folder of
# somebody else must not make the program send secrets of the environment to
# stores that a file there names.
_tableward_configuration() {
    case $_tableward_config in
    '') printf '%s\n' "${TABLEWARD_CONFIG:-/etc/tableward/tableward.yaml}" ;;
    [~]/*) printf '%s\n' "$HOME${_tableward_config#?}" ;;
    *) printf '%s\n' "$_tableward_config" ;;
    esac
}

# _tableward_ask ARGUMENT ...: print what the program prints for these arguments.
_tableward_ask() {
    timeout -k 1 2 tableward "$@" --config "$(_tableward_configuration)" \
        </dev/null 2>/dev/null | head -c 1000000
}

_tableward_jobs() {
    _tableward_ask jobs | awk '$1 ~ /^[a-z][a-z0-9-]*$/ && !seen[$1]++ {
        about = $0
        if (!sub(/^.*  \(/, "", about)) about = ""
        sub(/\)$/, "", about)
        print $1 "\t" about
    }'
}

# _tableward_arguments JOB: print each argument of the job, as "channel=" or, if
# the argument has a list of values, with each of them.
_tableward_arguments() {
    _tableward_ask jobs | awk -v job="$1" '$1 == job && !seen++ {
        for (i = 2; i <= NF && $i !~ /^\(/; i++) {
            word = $i
            gsub(/[][]/, "", word)
            if (word !~ /^[A-Za-z0-9_.|=-]+$/) continue
            if (sub(/=\.\.\.$/, "=", word)) { print word; continue }
            name = word
            sub(/=.*/, "=", name)
            sub(/^[^=]*=/, "", word)
            count = split(word, value, "|")
            for (k = 1; k <= count; k++) print name value[k]
        }
    }'
}

# _tableward_runs COMMAND [WORD]: print the ids of runs to which the command may
# apply. WORD: the first argument of the command, such as `list` of `poison`.
_tableward_runs() {
    case $1 in
    pause | cancel | finish)
        _tableward_ask status --state queued,running,waiting,paused --json ;;
    resume) _tableward_ask status --state paused,waiting --json ;;
    run) _tableward_ask status --state paused,failed --json ;;
    poison)
        [ "${2:-}" = list ] || _tableward_ask poison list --json ;;
    status) _tableward_ask status --json ;;
    esac | grep -o '"Id":"[A-Za-z0-9._-]*"' | cut -d '"' -f 4 | sort -u |
        head -n 1000
}

_tableward_queues() {
    _tableward_ask status --queues --json |
        grep -o '"Queue":"[a-z0-9-]*"' | cut -d '"' -f 4 | sort -u
}

_tableward_tables() {
    _tableward_ask tables --json | grep -o '"Table":"[A-Za-z0-9]*"' |
        cut -d '"' -f 4
}
