#!/usr/bin/env bash
# A Docker engine of the tests' own, and an image for it that comes from no registry: Node, its
# libraries, busybox, pm2 and workloads/shop. Needs root; `tools/setup.sh` installs the packages.
#
#   tools/containers.sh image        packs the image into target/containers/image.tar, once
#   tools/containers.sh up FOLDER    starts the engine; its socket is FOLDER/docker.sock
#   tools/containers.sh down FOLDER  removes its containers, stops it, leaves nothing behind
#
# FOLDER is made by `up`. Keep it short: the path of a unix socket has at most 107 letters.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
store="$root/target/containers"
# Another version than the machine's own node, at the same path: symbols must never be mixed up.
node_major=22

say() { printf 'tools/containers.sh: %s\n' "$*" >&2; }

copy_with_libraries() { # BINARY ROOTFS PLACE
    local library
    cp -L "$1" "$2$3"
    for library in $(ldd "$1" | grep -o '/[^ )]*' | sort -u); do
        mkdir -p "$2$(dirname "$library")"
        cp -L "$library" "$2$library"
    done
}

image() {
    mkdir -p "$store"
    exec 9>"$store/.lock"
    flock 9
    local tar="$store/image.tar" rootfs node applet
    node=$("$root/tools/node.sh" "$node_major")
    "$root/tools/packages.sh" pm2
    if [[ $tar -nt $node && $tar -nt $root/tools/containers.sh && $tar -nt $root/workloads/shop/server.js ]]; then
        return
    fi
    say "packing the image"
    rootfs=$(mktemp -d "$store/rootfs-XXXXXX")
    mkdir -p "$rootfs"/{bin,usr/bin,etc,tmp,proc,sys,dev,root,app,home/node}
    chmod 755 "$rootfs"
    chmod 1777 "$rootfs/tmp"
    copy_with_libraries "$node" "$rootfs" /usr/bin/node
    cp -L "$(command -v busybox)" "$rootfs/bin/busybox"
    for applet in $(busybox --list); do
        [[ $applet == busybox ]] || ln -sf busybox "$rootfs/bin/$applet"
    done
    ln -s ../../bin/busybox "$rootfs/usr/bin/env"
    printf 'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n' >"$rootfs/etc/passwd"
    printf 'root:x:0:\nnode:x:1000:\n' >"$rootfs/etc/group"
    chown 1000:1000 "$rootfs/home/node"
    cp "$root"/workloads/shop/* "$rootfs/app/"
    cp -r "$root/workloads/pm2/node_modules" "$rootfs/home/node/node_modules"
    # A checkout, as far as it takes to tell its commit.
    mkdir -p "$rootfs/app/.git/refs/heads"
    echo 'ref: refs/heads/main' >"$rootfs/app/.git/HEAD"
    echo 0123456789abcdef0123456789abcdef01234567 >"$rootfs/app/.git/refs/heads/main"
    tar -C "$rootfs" -cf "$tar.new" .
    mv "$tar.new" "$tar"
    rm -rf "$rootfs" "$store/data"
}

answers() { [[ $(curl -s -m 2 --unix-socket "$1/docker.sock" http://engine/_ping || true) == OK ]]; }

up() {
    local folder=$1 attempt
    command -v dockerd >/dev/null || { say "dockerd is missing; type: sudo apt-get install docker.io"; exit 1; }
    image
    mkdir -p "$folder" "$store/data"
    # Without the machine's firewall, without a bridge: the containers have a loopback and no more.
    setsid dockerd --data-root "$store/data" --exec-root "$folder/exec" --pidfile "$folder/dockerd.pid" \
        --host "unix://$folder/docker.sock" --iptables=false --ip6tables=false --bridge=none \
        --storage-driver=overlay2 </dev/null >"$folder/dockerd.log" 2>&1 9>&- &
    for attempt in $(seq 300); do
        answers "$folder" && break
        sleep 0.1
    done
    if ! answers "$folder"; then
        tail -20 "$folder/dockerd.log" >&2
        down "$folder"
        exit 1
    fi
    export DOCKER_HOST=unix://$folder/docker.sock
    docker image inspect nodespy-test >/dev/null 2>&1 \
        || docker import --change 'WORKDIR /home/node' "$store/image.tar" nodespy-test:latest >/dev/null
}

state_of() { awk '/^State:/{print $2}' "/proc/$1/status" 2>/dev/null || true; }

down() {
    local folder=$1 pid ids mount attempt
    if [[ -f $folder/dockerd.pid ]]; then
        export DOCKER_HOST=unix://$folder/docker.sock
        ids=$(timeout 20 docker ps -aq || true)
        # shellcheck disable=SC2086 # one argument for each id
        [[ -z $ids ]] || timeout 60 docker rm -f $ids >/dev/null || true
        pid=$(cat "$folder/dockerd.pid")
        kill "$pid" 2>/dev/null || true
        # Gone, or dead and not yet reaped by this machine's init.
        for attempt in $(seq 200); do
            case $(state_of "$pid") in '' | Z) break ;; esac
            sleep 0.1
        done
    fi
    awk -v a="$folder/" -v b="$store/" 'index($5, a) == 1 || index($5, b) == 1 { print $5 }' /proc/self/mountinfo \
        | sort -r | while read -r mount; do umount -l "$mount" || true; done
    rm -rf "$folder"
    rmdir /sys/fs/cgroup/*/docker /sys/fs/cgroup/docker 2>/dev/null || true
}

case "${1:-}" in
    image) image ;;
    up) up "${2:?which folder?}" ;;
    down) down "${2:?which folder?}" ;;
    *) say "usage: tools/containers.sh image | up FOLDER | down FOLDER"; exit 2 ;;
esac
