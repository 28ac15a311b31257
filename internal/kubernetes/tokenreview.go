package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// Pod is what the API server says about the pod that a token belongs to.
type Pod struct {
	// Account is the pod's ServiceAccount, as namespace/name.
	Account string
	// Name is the pod's name, and Node is the node that it runs on; both are empty if the token is not bound to a pod.
	Name, Node string
}

// Extra attributes that the API server adds to tokens that are bound to a pod.
const (
	podNameExtra  = "authentication.kubernetes.io/pod-name"
	nodeNameExtra = "authentication.kubernetes.io/node-name"
)

type tokenReview struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Spec       tokenReviewSpec   `json:"spec"`
	Status     tokenReviewStatus `json:"status,omitzero"`
}

type tokenReviewSpec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences"`
}

type tokenReviewStatus struct {
	Authenticated bool     `json:"authenticated"`
	Audiences     []string `json:"audiences"`
	Error         string   `json:"error"`
	User          struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
}

// Review asks whose token it is, and whether it was made for the audience. If it is not valid, problem says why.
func (c *Client) Review(ctx context.Context, token, audience string) (pod Pod, problem string, err error) {
	asked := tokenReview{
		APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview",
		Spec: tokenReviewSpec{Token: token, Audiences: []string{audience}},
	}
	var answer tokenReview
	err = c.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", "application/json", asked, &answer)
	if err != nil {
		return Pod{}, "", err
	}
	status := answer.Status
	switch {
	case status.Error != "":
		return Pod{}, status.Error, nil
	case !status.Authenticated:
		return Pod{}, "the API server does not know the token", nil
	case !slices.Contains(status.Audiences, audience): // a server that does not know audiences must not be believed
		return Pod{}, fmt.Sprintf("the token is not for the audience %q", audience), nil
	}
	namespace, name, isAccount := serviceAccount(status.User.Username)
	if !isAccount {
		return Pod{}, fmt.Sprintf("%q is no ServiceAccount", status.User.Username), nil
	}
	return Pod{
		Account: namespace + "/" + name,
		Name:    first(status.User.Extra[podNameExtra]), Node: first(status.User.Extra[nodeNameExtra]),
	}, "", nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
