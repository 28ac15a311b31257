#!/bin/bash
# Runs before a pod of Envoy's ends, for SIGTERM ends Envoy at once, with all streams. Callers are told to go elsewhere, and
# those that still have something here get 30 s for it.
ask() {
  exec 3<>/dev/tcp/127.0.0.1/9901 && printf '%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n' "$1" "$2" >&3 && cat <&3
  exec 3>&-
}
ask POST '/drain_listeners?graceful'
sleep 5 # until nobody is sent here any more
for ((second = 5; second < 30; second++)); do
  ask GET '/stats?filter=downstream_cx_active' | grep -qE '_748[013]\.downstream_cx_active: [1-9]' || exit 0
  sleep 1
done
