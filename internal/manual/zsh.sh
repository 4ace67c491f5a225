#compdef PROGRAM
# zsh completion of PROGRAM: source <(PROGRAM completion zsh), after compinit
_PROGRAM() {
    local line files
    local -a known
    for line in "${(@f)$("${(Q)words[1]}" complete zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
        :files* | :dirs*) files=${line%% *} ;;
        ?*) known+=("$line") ;;
        esac
    done
    (( $#known )) && _describe PROGRAM known
    [[ -z $files ]] && return
    [[ $PREFIX == --*=* ]] && compset -P '*='
    if [[ $files == :dirs ]]; then _files -/; else _files; fi
}
if [[ $funcstack[1] == _PROGRAM ]]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
