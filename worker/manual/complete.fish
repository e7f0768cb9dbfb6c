
# _tableward_sh FUNCTION ARGUMENT ...: run a function of ask.sh in sh.
function _tableward_sh --no-scope-shadowing
    _tableward_config="$config" sh -c "$_tableward_functions"\n'"$@"' sh $argv 2>/dev/null
end

# _tableward_offer SORT COMMAND [ARGUMENT]: print the candidates, one word a
# line, each with a description after a tab. SORT is a word of _tableward_words.
function _tableward_offer --no-scope-shadowing
    switch "$argv[1]"
        case JOB
            _tableward_sh _tableward_jobs
        case 'NAME=VALUE'
            test -z "$argv[3]"; or _tableward_sh _tableward_arguments $argv[3]
        case ID
            _tableward_sh _tableward_runs $argv[2..3]
        case Q
            _tableward_sh _tableward_queues
        case TABLE
            _tableward_sh _tableward_tables
        case COMMAND KIND KEY
            _tableward_list $argv[1]
        case FILE FOLDER
            __fish_complete_path $current
        case '*'
            string match --quiet --regex '^[A-Z]' -- $argv[1]
            or printf '%s\n' $argv[1]
    end
end

function _tableward
    set -l words (commandline --cut-at-cursor --tokenize --current-process)
    set -l current (commandline --cut-at-cursor --current-token)
    set -l command ''
    set -l option ''
    set -l config ''
    set -l prefix ''
    set -l arguments
    set -l sorts
    for word in $words[2..-1]
        if test -n "$option"
            test $option != --config; or set config $word
            set option ''
        else if string match --quiet -- '--config=*' $word
            set config (string replace -- --config= '' $word)
        else if string match --quiet -- '-?*' $word
            test -z "$(_tableward_value $word)"; or set option $word
        else if test -z "$command"
            set command $word
        else
            set --append arguments $word
        end
    end
    if test -z "$option"; and string match --quiet -- '--*=*' $current
        set option (string split --max 1 = -- $current)[1]
        set prefix $option=
        set current (string split --max 1 = -- $current)[2]
    end
    if test "$option" = --state
        set prefix $prefix(string match --regex '^.*,' -- $current)
        set current (string split , -- $current)[-1]
    end
    if test -z "$option"; and string match --quiet -- '-*' $current
        _tableward_options "$command"
        return
    end
    if test -n "$option"
        set sorts (_tableward_value $option)
    else if test -z "$command"
        set sorts COMMAND
    else
        set sorts (_tableward_words $command:(math (count $arguments) + 1))
    end
    for sort in $sorts
        for line in (_tableward_offer $sort $command $arguments[1])
            printf '%s%s\n' "$prefix" $line
        end
    end
end

complete --command tableward --no-files --arguments '(_tableward)'
