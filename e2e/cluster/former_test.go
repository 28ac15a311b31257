//go:build cluster

package cluster

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// formerTag is the tag of images with the programs of the version before.
const formerTag = "former"

// formerChart returns the chart's last version, which `make former-chart` has kept.
func formerChart(t *testing.T) string {
	t.Helper()
	kept, err := filepath.Glob("testdata/groupcast-*.tgz")
	if err != nil || len(kept) != 1 {
		t.Fatalf("testdata has %v, %v: want one chart", kept, err)
	}
	return kept[0]
}

// formerImages gives the nodes today's images with the programs of the version before, which `make former-programs` has kept.
func formerImages(t *testing.T) {
	t.Helper()
	load := []string{"load", "docker-image", "--name", clusterName}
	for _, service := range []string{"manager", "agent", "gatherer", "replicator"} {
		binary := testprocess.EarlierBinary(t, path.Join("github.com/groupcast/groupcast/services", service, "cmd/groupcast-"+service))
		image := strings.TrimSuffix(own(service), dev) + formerTag
		dockerfile := "FROM " + own(service) + "\nCOPY " + filepath.Base(binary) + " /usr/local/bin/groupcast\n"
		if _, err := commandWith(dockerfile, 2*time.Minute, "docker", "build", "--quiet", "--file", "-", "--tag", image, filepath.Dir(binary)); err != nil {
			t.Fatal(err)
		}
		load = append(load, image)
	}
	if _, err := command(5*time.Minute, "kind", load...); err != nil {
		t.Fatal(err)
	}
}

// versions returns the versions of the chart and of the programs that a release has. It ignores Envoy, whose old pods take their time, and
// pods that are about to end: helm waits only until enough are ready, and another pod may end after that.
func (r release) versions(t *testing.T) (all []string) {
	t.Helper()
	own := "app.kubernetes.io/instance=" + r.name + ",app.kubernetes.io/component in (manager,agent,gatherer,replicator)"
	charts := r.kubectl(t, "get", "sts,ds", "-l", own, "-o", `go-template={{range .items}}{{index .metadata.labels "helm.sh/chart"}} {{end}}`)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		const images = `{{range .items}}{{if not .metadata.deletionTimestamp}}{{(index .spec.containers 0).image}} {{end}}{{end}}`
		all = strings.Fields(charts)
		for image := range strings.FieldsSeq(r.kubectl(t, "get", "pods", "-l", own, "-o", "go-template="+images)) {
			all = append(all, image[strings.LastIndexByte(image, ':')+1:])
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) == 2 || time.Now().After(deadline) {
			return all
		}
	}
}
