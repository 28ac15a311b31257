//go:build cluster

package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// memberAccounts are the accounts that documented uses.
const memberAccounts = "manager.memberAccounts[0].account=training/publisher,manager.memberAccounts[0].groups={models}"

// documented returns the objects of docs/kubernetes.md that push from another namespace, for this release. They push the
// command itself, in place of a file that another image makes.
func (r release) documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	objects, _, _ := strings.Cut(rest, "```\n")
	before, rest, _ := strings.Cut(objects, "          initContainers:\n")
	_, after, found := strings.Cut(rest, "          containers:\n")
	if !found {
		t.Fatal("docs/kubernetes.md has no such pod")
	}
	image := regexp.MustCompile(`ghcr\.io/groupcast/groupcast-cli:\S+`)
	return strings.NewReplacer(
		"groupcast-manager.groupcast.svc", r.name+"-groupcast-manager."+r.namespace+".svc",
		"groupcast/groupcast/groupcast", "groupcast/"+r.namespace+"/"+r.name+"-groupcast",
		"/data/model.txt", "/usr/local/bin/groupcast",
	).Replace(image.ReplaceAllString(before+"          containers:\n"+after, own("cli")))
}

// letsMembersIn runs two pods of one account in another namespace, as the documentation describes: one of them gets
// what the other pushes.
func (r release) letsMembersIn(t *testing.T) {
	t.Helper()
	client, err := sdk.Open(r.operator(t))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.CreateGroup(t.Context(), "models", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	mustKubectl(t, "create", "namespace", "training")
	t.Cleanup(func() { _, _ = kubectl("delete", "namespace", "training", "--wait=false") })
	mustKubectl(t, "label", "namespace", "training", "pod-security.kubernetes.io/enforce=restricted")
	ca := r.kubectl(t, "get", "configmap", r.name+"-groupcast-ca", "-o", `go-template={{index .data "ca.crt"}}`)
	mustKubectl(t, "-n", "training", "create", "configmap", "groupcast-ca", "--from-literal=ca.crt="+ca)

	pushes := r.documented(t)
	pulls := strings.NewReplacer("name: publish,", "name: receive,",
		"[push, /usr/local/bin/groupcast, --group=models, --wait=1, --wait-limit=5m]", "[pull, --group=models, --into=/data, --once]").Replace(pushes)
	for job, objects := range map[string]string{"publish": pushes, "receive": pulls} {
		file := filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
			t.Fatal(err)
		}
		mustKubectl(t, "apply", "-f", file)
		mustKubectl(t, "-n", "training", "create", "job", job, "--from=cronjob/"+job)
	}
	if _, err := kubectl("-n", "training", "wait", "--for=condition=Complete", "job/publish", "job/receive", "--timeout=90s"); err != nil {
		said, _ := kubectl("-n", "training", "logs", "--prefix", "--selector=batch.kubernetes.io/job-name", "--tail=50")
		t.Fatalf("%v\n%s", err, said)
	}
}
