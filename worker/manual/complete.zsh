
# Completions of tableward for zsh; the first line of the file is for compinit.

# _tableward_add LINE ...: offer the candidates in the lines, as _tableward_offer
# prints them.
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
    local command argument position option _tableward_config word sort
    local -a sorts
    _tableward_read_line "${(@)words[2,CURRENT-1]}"
    if [[ -z $option && $PREFIX == --*=* ]]; then
        option=${PREFIX%%=*}
        compset -P 1 '*='
    fi
    [[ $option != --state ]] || compset -P '*,'
    if [[ -z $option && $PREFIX == -* ]]; then
        _tableward_add "${(@f)$(_tableward_options "$command")}"
        return
    fi
    sorts=("${(@f)$(_tableward_sorts)}")
    for sort in "${(@)sorts:#}"; do
        if [[ $sort == (FILE|FOLDER) ]]; then
            _files
        else
            local -a lines
            lines=("${(@f)$(_tableward_offer "$sort")}")
            _tableward_add "${(@)lines:#}"
        fi
    done
}

if [[ $funcstack[1] == _tableward ]]; then
    _tableward "$@"
fi
