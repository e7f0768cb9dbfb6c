
# Completions of tableward for zsh; the first line of the file is for compinit.

# _tableward_offer SORT COMMAND [ARGUMENT]: as in the file for bash.
_tableward_offer() {
    case $1 in
    (JOB) _tableward_jobs ;;
    (NAME=VALUE) [[ -z $3 ]] || _tableward_arguments "$3" ;;
    (ID) _tableward_runs "$2" "$3" ;;
    (Q) _tableward_queues ;;
    (TABLE) _tableward_tables ;;
    (COMMAND|KIND|KEY) _tableward_list "$1" ;;
    ([A-Z]*) ;;
    (*) printf '%s\n' "$1" ;;
    esac
}

# _tableward_add LINE ...: candidates, a word with a description after a tab.
_tableward_add() {
    local line word
    local -a described open
    for line in "$@"; do
        word=${line%%$'\t'*}
        if [[ $word == *= ]]; then
            open+=("$word")
        elif [[ $line == *$'\t'* ]]; then
            described+=("${word//:/\\:}:${line#*$'\t'}")
        else
            described+=("${word//:/\\:}")
        fi
    done
    (( ! $#described )) || _describe -t words 'tableward' described
    (( ! $#open )) || compadd -S '' -- "${open[@]}"
}

_tableward() {
    local word command option _tableward_config sort
    local -a arguments sorts
    for word in "${(@)words[2,CURRENT-1]}"; do
        if [[ -n $option ]]; then
            [[ $option != --config ]] || _tableward_config=$word
            option=
        elif [[ $word == --config=* ]]; then
            _tableward_config=${word#*=}
        elif [[ $word == -?* ]]; then
            [[ -z $(_tableward_value "$word") ]] || option=$word
        elif [[ -z $command ]]; then
            command=$word
        else
            arguments+=("$word")
        fi
    done
    if [[ -z $option && $PREFIX == --*=* ]]; then
        option=${PREFIX%%=*}
        compset -P 1 '*='
    fi
    [[ $option != --state ]] || compset -P '*,'
    if [[ -z $option && $PREFIX == -* ]]; then
        _tableward_add "${(@f)$(_tableward_options "$command")}"
        return
    fi
    if [[ -n $option ]]; then
        sorts=("${(@f)$(_tableward_value "$option")}")
    elif [[ -z $command ]]; then
        sorts=(COMMAND)
    else
        sorts=("${(@f)$(_tableward_words "$command:$(($#arguments + 1))")}")
    fi
    for sort in "${(@)sorts:#}"; do
        if [[ $sort == (FILE|FOLDER) ]]; then
            _files
        else
            local -a lines
            lines=("${(@f)$(_tableward_offer "$sort" "$command" "$arguments[1]")}")
            _tableward_add "${(@)lines:#}"
        fi
    done
}

if [[ $funcstack[1] == _tableward ]]; then
    _tableward "$@"
fi
