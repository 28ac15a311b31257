//go:build cluster

package cluster

import (
	"strings"
	"testing"
	"time"
)

// bringUp does on one machine what docs/operations.md says for machines with systemd.
const bringUp = `set -eu
for _ in $(seq 150); do systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded' && break; sleep 0.2; done
systemd-sysusers
systemd-tmpfiles --create groupcast.conf
[ "$(stat -c '%U %a' /var/lib/groupcast)" = 'groupcast 700' ] # a member alone can enroll
systemctl daemon-reload
sed -i 's/manager:7400/127.0.0.1:7400/' /etc/groupcast/*.yaml
as() { runuser -u groupcast -- groupcast --config "/var/lib/groupcast/$@"; }
systemctl enable --now groupcast-manager
for role in agent gatherer replicator; do
  as manager/admin.yaml token create "$role-1" --role "$role" >/root/token
  install -m 600 -o groupcast /root/token "/etc/groupcast/$role.token"
done
systemctl enable --now groupcast-agent groupcast-gatherer groupcast-replicator
as manager/admin.yaml group create models
as member.yaml enroll --endpoint 127.0.0.1:7400 --token "$(as manager/admin.yaml token create node-1 --group models)"
systemctl enable --now groupcast-pull@models
for _ in $(seq 50); do as manager/admin.yaml member list models | grep -q node-1 && break; sleep 0.2; done
# Who is told to end has not failed.
systemctl stop groupcast-pull@models
[ "$(systemctl is-failed groupcast-pull@models)" = inactive ]
systemctl start groupcast-pull@models
for _ in $(seq 50); do as manager/admin.yaml member list models | grep -q node-1 && break; sleep 0.2; done
cd /var/lib/groupcast
for n in 1 2; do
  head -c 1000000 /dev/urandom >"/root/object-$n"
  install -m 600 -o groupcast "/root/object-$n" .
  as manager/admin.yaml push "object-$n" --group models
  cmp "/root/object-$n" "received/models/object-$n"
  as manager/admin.yaml upload "object-$n" --to 127.0.0.1:7420
  cmp "/root/object-$n" "gatherer/gathered/admin/object-$n"
  # All begin again, the manager first killed: what they know is on the disk.
  systemctl kill --signal=KILL groupcast-manager
  systemctl restart groupcast-agent groupcast-gatherer groupcast-replicator groupcast-pull@models
  for _ in $(seq 100); do systemctl is-active --quiet groupcast-manager && as manager/admin.yaml member list models | grep -q node-1 && break; sleep 0.2; done
done
for _ in $(seq 100); do [ "$(systemctl show --property StatusText 'groupcast-*' | grep -c =ready)" = 4 ] && break; sleep 0.2; done
systemctl show --property Id,ActiveState,StatusText,NRestarts 'groupcast-*'
`

// On a machine with a real systemd, the units start what they are to start, in their sandbox.
func TestRSystemd(t *testing.T) {
	t.Parallel()
	root, machine := t.TempDir(), clusterName+"-systemd"
	mustRun(t, 3*time.Minute, "make", "-C", "../..", "build", "install", "DESTDIR="+root)
	mustRun(t, time.Minute, "docker", "run", "--detach", "--rm", "--name", machine, "--privileged", "--cgroupns=private", "--tmpfs", "/run", "--tmpfs", "/tmp",
		"--entrypoint", "/usr/local/bin/entrypoint", nodeImage, "/sbin/init")
	t.Cleanup(func() { mustRun(t, time.Minute, "docker", "rm", "--force", machine) })
	mustRun(t, time.Minute, "docker", "cp", root+"/usr", machine+":/")
	mustRun(t, time.Minute, "docker", "cp", root+"/etc", machine+":/")
	states := mustRun(t, 2*time.Minute, "docker", "exec", machine, "bash", "-c", bringUp)
	if strings.Count(states, "ActiveState=active") != 5 || strings.Count(states, "StatusText=ready") != 4 || !strings.Contains(states, "NRestarts=2") {
		t.Errorf("in the end, after the manager was killed twice:\n%s", states)
	}
}

func mustRun(t *testing.T, limit time.Duration, name string, args ...string) string {
	t.Helper()
	said, err := command(limit, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return said
}
