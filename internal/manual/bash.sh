# bash completion of PROGRAM: source <(PROGRAM completion bash)
_PROGRAM() {
    local line flag files=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files* | :dirs*) files=${line%% *} ;;
        *) COMPREPLY+=("$line") ;;
        esac
    done < <("$1" complete bash -- "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case $files in
    :files) flag=-f ;;
    :dirs) flag=-d ;;
    *) return ;;
    esac
    compopt -o filenames 2>/dev/null # so that directories end in /
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(compgen "$flag" -- "$2")
}
complete -F _PROGRAM PROGRAM
