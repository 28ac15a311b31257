package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/services/cli/installation"
)

// kubectlThat puts a kubectl on the PATH, and no configuration anywhere: it does what a script says, where $3 and $4 are what is asked
// for. It returns the file of its calls.
func kubectlThat(t *testing.T, script string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	text := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\n%s\n", calls, script)
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("GROUPCAST_CONFIG", "")
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", "")
	return calls
}

// lists has kubectl write recorded lists for pods and workloads, nothing for claims and events, and a log.
func lists(t *testing.T, names ...string) string {
	t.Helper()
	var all struct {
		Items []json.RawMessage `json:"items"`
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("installation", "testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		all.Items = append(all.Items, list.Items...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return `case "$3 $4" in "get pods,"*) cat ` + file + `;; get*) echo '{"items": []}';; *) echo 'no room for it';; esac`
}

func groupcast(args ...string) (status int, out, said string) {
	var stdout, stderr bytes.Buffer
	status = Main(append([]string{"groupcast"}, args...), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// Without a manager, a configuration or credentials it says what is ready, and what is not: why, and what to do.
func TestStatusAsksKubernetes(t *testing.T) {
	calls := kubectlThat(t, lists(t, "crash"))
	status, out, said := groupcast("status", "--kubernetes", "crash")
	if status != exitUnavailable || out != "PART      READY\nmanager   0/1\n" {
		t.Errorf("status %d:\n%s", status, out)
	}
	const why = "manager: pod/crash-groupcast-manager-0: its container has ended with 2 (Error): no room for it\n  kubectl -n crash logs"
	if !strings.HasPrefix(said, why) || !strings.HasSuffix(said, "\ngroupcast: not all is ready of manager\n") {
		t.Errorf("said:\n%s", said)
	}
	text, err := os.ReadFile(calls)
	if err != nil || strings.Count(string(text), "--namespace crash ") != 4 || !strings.Contains(string(text), "logs crash-groupcast-manager-0") {
		t.Errorf("kubectl was called as %v\n%s", err, text)
	}
	var parts []installation.Part
	if _, out, _ = groupcast("status", "--kubernetes", "crash", "-o", "json"); json.Unmarshal([]byte(out), &parts) != nil || len(parts) != 1 || parts[0].Problems[0].Of[0] != "pod/crash-groupcast-manager-0" {
		t.Errorf("as JSON:\n%s", out)
	}
	kubectlThat(t, lists(t, "ready"))
	if status, out, said := groupcast("status", "--kubernetes", "ready"); status != exitOK || said != "" || out != "PART      READY\nmanager   3/3\nagent     3/3\n" {
		t.Errorf("all is ready, and the status is %d: %s\n%s", status, said, out)
	}
}

// Of several releases one has to be named; where there is none, or not that one, it says so.
func TestStatusOfOneRelease(t *testing.T) {
	kubectlThat(t, lists(t, "ready", "crash"))
	if status, _, said := groupcast("status", "--kubernetes", "n"); status != exitUsage || !strings.Contains(said, "name one of crash, ready with --release") {
		t.Errorf("of two: %d, %s", status, said)
	}
	if status, out, _ := groupcast("status", "--kubernetes", "n", "--release", "ready"); status != exitOK || !strings.Contains(out, "3/3") {
		t.Errorf("of the one that is ready: %d\n%s", status, out)
	}
	if status, _, said := groupcast("status", "--kubernetes", "n", "--release", "other"); status != exitNotFound || !strings.Contains(said, "has no release other, but crash, ready") {
		t.Errorf("of one that is not there: %d, %s", status, said)
	}
	kubectlThat(t, lists(t))
	if status, _, said := groupcast("status", "--kubernetes", "n"); status != exitNotFound || !strings.Contains(said, "nothing of Groupcast is in the namespace n") {
		t.Errorf("where there is none: %d, %s", status, said)
	}
}

// After an uninstallation it says what is left, which is all that was stored, and how to go on from it.
func TestStatusAfterUninstalling(t *testing.T) {
	const claim = `{"kind": "PersistentVolumeClaim", "metadata": {"name": "NAME", "labels": {"app.kubernetes.io/name": "PRODUCT", "app.kubernetes.io/instance": "r", "app.kubernetes.io/component": "manager"}}}`
	ours := strings.NewReplacer("NAME", "data-r-groupcast-manager-0", "PRODUCT", "groupcast").Replace(claim)
	others := strings.NewReplacer("NAME", "data-other-manager-0", "PRODUCT", "other").Replace(claim)
	kubectlThat(t, `case "$4" in persistentvolumeclaims*) echo '{"items": [`+others+`, `+ours+`]}';; *) echo '{"items": []}';; esac`)
	status, _, said := groupcast("status", "--kubernetes", "n")
	if status != exitNotFound || !strings.Contains(said, "it was uninstalled, and its claims are kept (data-r-groupcast-manager-0); helm install under the same name goes on from them") ||
		!strings.Contains(said, "kubectl -n n delete pvc data-r-groupcast-manager-0 removes") {
		t.Errorf("%d: %s", status, said)
	}
	if _, _, said := groupcast("status", "--kubernetes", "n", "--release", "another"); !strings.Contains(said, "nothing of Groupcast is in the namespace n: helm install has not been there, or was refused, or it was uninstalled") {
		t.Errorf("of another release: %s", said)
	}
}

// A user with rights in the namespace alone is told what cannot be seen otherwise, and is shown no error: that is enough for the rest.
func TestStatusWithoutRightsOutsideOfTheNamespace(t *testing.T) {
	refused := `echo 'Error from server (Forbidden): '"$4"' is forbidden: User "jane" cannot do that' >&2; exit 1`
	kubectlThat(t, `case "$3 $4" in "get nodes"|logs*) `+refused+";; esac\n"+lists(t, "crash"))
	status, out, said := groupcast("status", "--kubernetes", "crash")
	if status != exitUnavailable || out != "PART      READY\nmanager   0/1\n" || strings.Contains(said, "jane") {
		t.Errorf("status %d, said:\n%s\n%s", status, said, out)
	}
	for _, want := range []string{
		"note: which nodes are away is not known: Kubernetes does not let this user see that\n",
		"note: what crash-groupcast-manager-0 has in its log is not known: Kubernetes does not let this user see that\n",
		"manager: pod/crash-groupcast-manager-0: its container has ended with 2 (Error)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("said:\n%s\nwant %q in it", said, want)
		}
	}
}

// If nodes are not told in time, logs are read all the same.
func TestStatusWithoutNodesInTime(t *testing.T) {
	kubectlThat(t, `case "$3 $4" in "get nodes") exec sleep 60;; esac`+"\n"+lists(t, "crash"))
	_, _, said := groupcast("status", "--kubernetes", "crash", "--timeout", "2s")
	if !strings.Contains(said, "note: which nodes are away is not known: kubectl get nodes had no answer in time") || !strings.Contains(said, "no room for it") {
		t.Errorf("said:\n%s", said)
	}
}

// What kubectl says is shown, once, and told apart by the exit status.
func TestStatusWithoutAnAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		script, said string
		status       int
	}{
		"forbidden":   {`echo 'Error from server (Forbidden): pods is forbidden: User "jane" cannot list resource "pods"' >&2; exit 1`, "Kubernetes does not let this user get pods,daemonsets,statefulsets,deployments in the namespace n", exitForbidden},
		"unreachable": {`echo 'The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?' >&2; exit 1`, "reaches no API server", exitUnavailable},
		"hanging":     {`exec sleep 60`, "had no answer in time (--timeout 300ms)", exitUnavailable},
		"strange":     {`echo no list`, "what kubectl wrote is no list of objects", exitFailed},
	} {
		kubectlThat(t, tt.script)
		limit := "15s"
		if name == "hanging" {
			limit = "300ms"
		}
		status, out, said := groupcast("status", "--kubernetes", "n", "--timeout", limit)
		if status != tt.status || out != "" || strings.Count(said, tt.said) != 1 || name == "forbidden" && strings.Count(said, `User "jane"`) != 1 {
			t.Errorf("%s: status %d, said %q", name, status, said)
		}
	}
	kubectlThat(t, "")
	t.Setenv("PATH", t.TempDir())
	if status, _, said := groupcast("status", "--kubernetes", "n"); status != exitUsage || !strings.Contains(said, "kubectl is not on the PATH") {
		t.Errorf("without kubectl: %d, %s", status, said)
	}
}
