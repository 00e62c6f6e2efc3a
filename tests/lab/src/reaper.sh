# Ends processes of one lab: SIGTERM, and SIGKILL for those that are still there a second later.
#
#   $1    the lab's folder; pids/NAME in it holds "PID START", START being field 22 of /proc/PID/stat, and cgroups,
#         where there is one, the cgroups that are the lab's, a line each
#   $2 …  the names to end; without any, all are ended and the folder is removed
#
# It waits for the end of its standard input: that is a pipe from the lab's owner, which closes when the owner lets
# go of it or dies, by whatever signal. It is a shell script so that it needs no binary but the one every machine has.
dir=$1
shift
cat >/dev/null

everything=
if [ $# -eq 0 ]; then
    everything=yes
    set -- $(ls "$dir/pids")
fi

# Is NAME's process still running? Its pid alone does not say: another process may have it by now.
runs() {
    pid= start=
    read -r pid start 2>/dev/null <"$dir/pids/$1" || return 1
    stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
    set -- ${stat##*) } # what follows the command's name, which may hold blanks and parentheses
    [ "$1" != Z ] && shift 19 && [ "$1" = "$start" ]
}

signal_all() {
    signal=$1
    shift
    for name; do
        if runs "$name"; then kill "-$signal" "$pid"; fi
    done 2>/dev/null
}

any_runs() {
    for name; do
        if runs "$name"; then return 0; fi
    done
    return 1
}

signal_all TERM "$@"
ticks=20
while [ $ticks -gt 0 ] && any_runs "$@"; do
    sleep 0.05
    ticks=$((ticks - 1))
done
signal_all KILL "$@"
while any_runs "$@"; do sleep 0.01; done

if [ -n "$everything" ]; then
    # Those of the last processes are busy for a moment longer.
    ticks=50
    while [ $ticks -gt 0 ] && [ -s "$dir/cgroups" ]; do
        sort -u "$dir/cgroups" | while read -r cgroup; do
            if [ -d "$cgroup" ]; then find "$cgroup" -depth -type d -exec rmdir {} \; ; fi
            if [ -d "$cgroup" ]; then echo "$cgroup"; fi
        done >"$dir/cgroups.left"
        mv "$dir/cgroups.left" "$dir/cgroups"
        sleep 0.02
        ticks=$((ticks - 1))
    done
    rm -rf "$dir"
fi
