//go:build cluster

package cluster

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
)

const mountedNodePort = 30495

// "mounted certificates (cert-manager) by value": managers show a certificate of another issuer, which has the name that the documentation
// has cert-manager write. They wait until it is there, and the command says for what. Then all parts get in, and a caller by way of Envoy.
func TestQMountedCertificate(t *testing.T) {
	t.Parallel()
	r := small("mounted", "manager.tls.existingSecret=groupcast-managers", "agent.enabled=false")
	mustKubectl(t, "create", "namespace", r.namespace)
	mustKubectl(t, "label", "namespace", r.namespace, "pod-security.kubernetes.io/enforce=restricted")
	r.install(t)
	r.explained(t, `secret "groupcast-managers" not found`, "manager.tls.existingSecret")
	issued := issuedByAnother(t)
	r.kubectl(t, "create", "secret", "generic", "groupcast-managers",
		"--from-file=tls.crt="+issued.Certificate, "--from-file=tls.key="+issued.Key, "--from-file=ca.crt="+issued.Authorities)
	r.kubectl(t, "delete", "pod", "mounted-groupcast-manager-0") // or Kubernetes looks for it again after some two minutes
	r.port = mountedNodePort
	r.values = append(r.values, "agent.enabled=true", "dataPlane.hostNetwork=false", "agent.cache.size=64Mi",
		fmt.Sprintf("envoy.enabled=true,envoy.service.type=NodePort,envoy.service.nodePort=%d,tests.agents=%d", mountedNodePort, nodes))
	r.apply(t)
	r.check(t)
	client, err := sdk.Open(r.operator(t))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if status, err := client.Status(t.Context()); err != nil || status.ManagersOnline != 1 {
		t.Errorf("by way of Envoy: %+v, %v", status, err)
	}
}

// issuedByAnother returns the files of a certificate for managers of which another CA is the issuer.
func issuedByAnother(t *testing.T) *identity.Files {
	t.Helper()
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile(`uris: \["(.+)"\]`).FindSubmatch(text)
	if documented == nil {
		t.Fatal("docs/kubernetes.md has no URI for managers")
	}
	uri, err := url.Parse(string(documented[1]))
	if err != nil {
		t.Fatal(err)
	}
	self, err := identity.ParseURI(uri, identity.DefaultTrustDomain)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := issuer.IssueBundle(self, 1)
	if err != nil {
		t.Fatal(err)
	}
	files := identity.FilesIn(t.TempDir())
	if err := files.Write(bundle); err != nil {
		t.Fatal(err)
	}
	return files
}
