
# shellcheck shell=bash

# _tableward_keep PREFIX: read candidates from standard input, and add those that
# begin with `current` to COMPREPLY, each with PREFIX before it.
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

# Bash breaks words at `=`, and replaces only what follows the last `=`. So
# remove the part up to that `=` from each reply.
_tableward_cut_at_equals() {
    local typed=$1 i
    [[ $typed == *=* && $COMP_WORDBREAKS == *=* ]] || return 0
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"${typed%"${typed##*=}"}"}
    done
}

_tableward() {
    # shellcheck disable=SC2034 # the functions of ask.sh use them
    local command argument position option _tableward_config word
    local current sort prefix='' words=() line=${COMP_LINE:0:COMP_POINT}
    COMPREPLY=()
    read -ra words <<<"$line"
    [[ $line != *[[:blank:]] ]] || words+=('')
    ((${#words[@]} > 1)) || return 0
    current=${words[${#words[@]} - 1]}
    local typed=$current
    _tableward_read_line "${words[@]:1:${#words[@]}-2}"
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
            _tableward_keep "$prefix" < <(_tableward_offer "$sort")
        fi
    done < <(_tableward_sorts)
    _tableward_cut_at_equals "$typed"
}

complete -F _tableward tableward
