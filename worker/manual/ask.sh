
# shellcheck shell=sh
# What only the program knows: jobs, their arguments, runs. Each answer is
# bounded in time and size, and there is none if the program fails: without a
# configuration, or while its store does not respond. Only characters that mean
# nothing to a shell come through.

# _tableward_ask ARGUMENT ...: what the program prints, with the configuration
# of the line that is being typed, if it names one.
_tableward_ask() {
    timeout -k 1 2 tableward ${_tableward_config:+"--config=$_tableward_config"} \
        "$@" </dev/null 2>/dev/null | head -c 1000000
}

_tableward_jobs() {
    _tableward_ask jobs | awk '$1 ~ /^[a-z][a-z0-9-]*$/ && !seen[$1]++ {
        about = $0
        if (!sub(/^.*  \(/, "", about)) about = ""
        sub(/\)$/, "", about)
        print $1 "\t" about
    }'
}

# _tableward_arguments JOB: "channel=", or each value of one with a list.
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

# _tableward_runs COMMAND [WORD]: the ids of runs that it may be about.
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
