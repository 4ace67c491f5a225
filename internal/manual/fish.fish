# fish completion of PROGRAM: PROGRAM completion fish | source
function __PROGRAM_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for line in ($words[1] complete fish -- $words[2..-1] "$typed" 2>/dev/null)
        switch $line
            case ':files*' ':dirs*'
                set -l prefix (string replace -r '^:[a-z]+ ' '' -- $line)
                set -l begun (string replace -- "$prefix" '' "$typed")
                if string match -q ':files*' -- $line
                    printf "$prefix%s\n" (__fish_complete_path "$begun")
                else
                    printf "$prefix%s\n" (__fish_complete_directories "$begun" '')
                end
            case '*'
                echo $line
        end
    end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
