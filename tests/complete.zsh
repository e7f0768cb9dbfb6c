# What the completions for zsh offer for a line, one word a line.
#
#   zsh -f tests/complete.zsh FOLDER LINE
#
# The widget's own functions are replaced by ones that print; everything else is
# the file that is installed.
words=("${(@s: :)2}")
CURRENT=$#words
PREFIX=$words[CURRENT]
typed=$PREFIX
cut=

offer() {
    local word
    for word in "$@"; do
        [[ $word != "$PREFIX"* ]] || print -r -- "$cut$word"
    done
}

# compset -P [1] PATTERN: what the pattern matches is left as it is.
compset() {
    case $* in
    (-P\ 1\ \*=) cut=${PREFIX%%=*}= ;;
    (-P\ \*,) [[ $PREFIX == *,* ]] || return 1
        cut+=${PREFIX%,*}, ;;
    (*) print -ru2 "compset $*"; exit 1 ;;
    esac
    PREFIX=${typed#"$cut"}
}

compadd() {
    while [[ $1 != -- ]]; do shift; done
    shift
    offer "$@"
}

_describe() {
    local name=${@[-1]} entry
    for entry in "${(@P)name}"; do
        entry=${entry//\\:/$'\x01'}
        entry=${entry%%:*}
        offer "${entry//$'\x01'/:}"
    done
}

_files() { offer *(N) }

source $1/_tableward
_tableward
