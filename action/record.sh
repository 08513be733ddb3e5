#!/usr/bin/env bash
# The second step of action.yml: records COMMAND with the OPTIONS of `nodespy record`, writes its summary for the job's page, and ends
# as the command did.
set -euo pipefail

folder=$RUNNER_TEMP/nodespy
recording=$folder/profile.nspy
page=$folder/profile.html
summary=$folder/summary.md
status_file=$folder/status
rm -f "$recording" "$page" "$status_file"

# Ubuntu's kernels let nobody but root sample at first; a runner of GitHub's may change that.
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
if ((paranoid > 1 && EUID != 0)) && sudo --non-interactive sysctl --quiet kernel.perf_event_paranoid=1 2>/dev/null; then
    trap 'sudo --non-interactive sysctl --quiet "kernel.perf_event_paranoid=$paranoid"' EXIT
fi

export COMMAND status_file
recorded=0
# shellcheck disable=SC2016,SC2086  # expanded by the shell that is recorded; options are several words
nodespy record ${OPTIONS:-} -o "$recording" -- bash -c 'status=0; bash -c "$COMMAND" || status=$?; echo "$status" >"$status_file"' ||
    recorded=$?

if [[ -s $recording ]]; then
    nodespy convert "$recording" "$page"
    nodespy report "$recording" --format md >"$summary"
    cat "$summary" >>"$GITHUB_STEP_SUMMARY"
    printf 'page=%s\nrecording=%s\n' "$page" "$recording" >>"$GITHUB_OUTPUT"
else
    printf '::warning::nodespy recorded nothing (exit code %s)\n' "$recorded"
fi
# What the command did decides, not whether it was recorded.
exit "$(cat "$status_file" 2>/dev/null || echo "$recorded")"
