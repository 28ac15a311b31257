package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/identity"
)

// serve starts an API server that answers with a handler, and returns a client of it.
func serve(t *testing.T, handler http.HandlerFunc) (client *Client, dir string) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	dir = t.TempDir()
	write(t, dir, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	write(t, dir, "namespace", "models\n")
	write(t, dir, "token", "first")
	client, err := New(server.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.http.CloseIdleConnections)
	return client, dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// "The kubelet refreshes the token": the client shows the token that is now in the file.
func TestShowsTheTokenOfNow(t *testing.T) {
	var shown []string
	client, dir := serve(t, func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization"))
		w.Write([]byte(`{"metadata":{"resourceVersion":"7"},"data":{"ca.key":"a2V5"}}`))
	})
	data, version, err := client.Secret(t.Context(), "ca")
	if err != nil || version != "7" || string(data["ca.key"]) != "key" {
		t.Fatalf("%q %q %v", data, version, err)
	}
	write(t, dir, "token", "second\n")
	if _, _, err := client.Secret(t.Context(), "ca"); err != nil {
		t.Fatal(err)
	}
	if len(shown) != 2 || shown[0] != "Bearer first" || shown[1] != "Bearer second" {
		t.Errorf("shown %q", shown)
	}
}

// A server that is away, or says that it cannot answer now, is told apart from one that refuses.
func TestNoAnswerIsNoRefusal(t *testing.T) {
	code := 0
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if code == 0 {
			panic(http.ErrAbortHandler) // the connection ends
		}
		w.WriteHeader(code)
	})
	for of, want := range map[int]bool{
		0: true, http.StatusServiceUnavailable: true, http.StatusTooManyRequests: true, http.StatusForbidden: false, http.StatusNotFound: false, http.StatusConflict: false,
	} {
		code = of
		if _, _, err := client.Secret(t.Context(), "ca"); err == nil || errors.Is(err, ErrNoAnswer) != want {
			t.Errorf("status %d: %v, want no answer: %v", of, err, want)
		}
	}
}

func TestPatchesOnlyWhatItRead(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Metadata struct{ ResourceVersion string }
			Data     map[string]string
		}
		json.NewDecoder(r.Body).Decode(&body)
		if r.Method != http.MethodPatch || r.URL.Path != "/api/v1/namespaces/models/secrets/ca" || body.Data["k"] != "dg==" {
			t.Errorf("%s %s %v", r.Method, r.URL.Path, body)
		}
		if body.Metadata.ResourceVersion != "7" {
			w.WriteHeader(http.StatusConflict)
			w.Write([]byte(`{"message":"the object has been modified"}`))
			return
		}
		w.Write([]byte(`{}`))
	})
	if err := client.SetSecret(t.Context(), "ca", map[string][]byte{"k": []byte("v")}, "7"); err != nil {
		t.Error(err)
	}
	err := client.SetSecret(t.Context(), "ca", map[string][]byte{"k": []byte("v")}, "6")
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "the object has been modified") {
		t.Errorf("%v", err)
	}
}

func TestReview(t *testing.T) {
	for name, c := range map[string]struct{ status, account, problem string }{
		"a pod's":           {`{"authenticated":true,"audiences":["groupcast"],"user":{"username":"system:serviceaccount:ns:agent","extra":{"authentication.kubernetes.io/node-name":["n1"]}}}`, "ns/agent", ""},
		"another audience":  {`{"authenticated":true,"audiences":["other"],"user":{"username":"system:serviceaccount:ns:agent"}}`, "", "not for the audience"},
		"no audiences":      {`{"authenticated":true,"user":{"username":"system:serviceaccount:ns:agent"}}`, "", "not for the audience"},
		"not authenticated": {`{"authenticated":false,"audiences":["groupcast"]}`, "", "does not know"},
		"an error":          {`{"authenticated":true,"audiences":["groupcast"],"error":"expired"}`, "", "expired"},
		"a user":            {`{"authenticated":true,"audiences":["groupcast"],"user":{"username":"system:admin"}}`, "", "no ServiceAccount"},
	} {
		client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"status":` + c.status + `}`)) })
		pod, problem, err := client.Review(t.Context(), "token", "groupcast")
		if err != nil || pod.Account != c.account || !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
			t.Errorf("%s: %+v %q %v", name, pod, problem, err)
		}
	}
}

// Every node's name becomes a name that an identity can have, and no two names become the same.
func TestLabelIsANameOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?`)
		a, b := node.Draw(t, "a"), node.Draw(t, "b")
		if err := identity.CheckName(Label(a)); err != nil {
			t.Fatal(err)
		}
		if a != b && Label(a) == Label(b) {
			t.Fatalf("%s and %s are both %s", a, b, Label(a))
		}
		if made := Label(a); made != a && Label(made) == made {
			t.Fatalf("%s and a node that is called so are both %s", a, made)
		}
	})
}

// A pod finds its own name in its token; a text that is not a token has none.
func TestPodOf(t *testing.T) {
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for text, want := range map[string]string{
		token(`{"kubernetes.io":{"namespace":"training","pod":{"name":"publisher-1","uid":"u"}}}`): "publisher-1",
		token(`{"kubernetes.io":{"namespace":"training"}}`):                                        "",
		token(`{"kubernetes.io":"training"}`):                                                      "",
		token(``):                                                                                  "",
		"e30.%%.c2ln":                                                                              "",
		"":                                                                                         "",
	} {
		if got := PodOf(text); got != want {
			t.Errorf("%s is of pod %q, want %q", text, got, want)
		}
	}
}

// Whose a token is, and for whom, is read in the one form that tokens have; a token in another form says nothing.
func TestClaimsOf(t *testing.T) {
	for text, want := range map[string]Claims{
		`{"sub":"system:serviceaccount:ns:agent","aud":["a","b"]}`: {Account: "ns/agent", Audiences: []string{"a", "b"}},
		`{"sub":"system:serviceaccount:ns:agent","aud":"a"}`:       {Account: "ns/agent", Audiences: []string{"a"}},
		`{"sub":"ada","kubernetes.io":{"pod":{"uid":"u"}}}`:        {PodUID: "u"},
		`{"sub":"system:serviceaccount:ns:agent","aud":1}`:         {},
	} {
		if got := ClaimsOf("e30." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".c2ln"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
