
# shellcheck shell=bash

# _tableward_offer SORT COMMAND [ARGUMENT]: candidates, a word with a
# description after a tab each; SORT is a word of _tableward_words.
_tableward_offer() {
    case $1 in
    JOB) _tableward_jobs ;;
    NAME=VALUE) [ -z "$3" ] || _tableward_arguments "$3" ;;
    ID) _tableward_runs "$2" "$3" ;;
    Q) _tableward_queues ;;
    TABLE) _tableward_tables ;;
    COMMAND | KIND | KEY) _tableward_list "$1" ;;
    [A-Z]*) ;;
    *) printf '%s\n' "$1" ;;
    esac
}

# _tableward_keep PREFIX: of the candidates on standard input those that begin
# as the word `current` does, each after PREFIX.
_tableward_keep() {
    local line word
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        if [[ $word == "$current"* ]]; then
            COMPREPLY+=("$1$word")
            [[ $word != *= ]] || compopt -o nospace 2>/dev/null
        fi
    done
}

# Bash breaks words at `=` and replaces only what is after it.
_tableward_cut_at_equals() {
    local typed=$1 i
    [[ $typed == *=* && $COMP_WORDBREAKS == *=* ]] || return 0
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"${typed%"${typed##*=}"}"}
    done
}

# The words of the line up to the cursor: `command`, its `arguments`, and the
# option whose value is `current`, if it is one.
_tableward_read_line() {
    local word i last=$((${#words[@]} - 1))
    for ((i = 1; i < last; i++)); do
        word=${words[i]}
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
}

_tableward() {
    local current command='' option='' _tableward_config='' sort prefix=''
    local words=() arguments=() line=${COMP_LINE:0:COMP_POINT}
    COMPREPLY=()
    read -ra words <<<"$line"
    [[ $line != *[[:blank:]] ]] || words+=('')
    ((${#words[@]} > 1)) || return 0
    current=${words[${#words[@]} - 1]}
    local typed=$current
    _tableward_read_line
    if [[ -z $option && $current == --*=* ]]; then
        option=${current%%=*}
        prefix=$option=
        current=${current#*=}
    fi
    if [[ $option == --state ]]; then
        prefix+=${current%"${current##*,}"}
        current=${current##*,}
    fi
    if [[ -z $option && $current == -* ]]; then
        _tableward_keep '' < <(_tableward_options "$command")
        return 0
    fi
    while read -r sort; do
        if [[ $sort == FILE || $sort == FOLDER ]]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r line; do
                COMPREPLY+=("$prefix$line")
            done < <(compgen -f -- "$current")
        else
            _tableward_keep "$prefix" < <(_tableward_offer "$sort" "$command" \
                "${arguments[0]:-}")
        fi
    done < <(if [[ -n $option ]]; then
        _tableward_value "$option"
    elif [[ -z $command ]]; then
        echo COMMAND
    else
        _tableward_words "$command:$((${#arguments[@]} + 1))"
    fi)
    _tableward_cut_at_equals "$typed"
}

complete -F _tableward tableward
