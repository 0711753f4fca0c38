package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	pageVersion = "meta.k8s.io/v1"
	anyRevision = -1 // in a token: go on at whatever is newest, as the revision of the first page is gone
)

// A continueToken is the content of a continue token: where a list goes on. The form is upstream's, so that a client may
// go on with a list after the server was exchanged. Its name is upstream's, too: an answer to one that is no token shows it.
type continueToken struct {
	Version string `json:"v"`
	Rev     int64  `json:"rv"`
	Start   string `json:"start"`          // first key of the next page, without the prefix
	Left    int64  `json:"left,omitempty"` // ours: how many objects come, so that not every page counts them anew; 0: nobody counted
}

// token encodes the place behind the object with the key, relative to the prefix of the list, and how many objects come then.
func token(rev int64, key string, left int64) string {
	b, err := json.Marshal(continueToken{Version: pageVersion, Rev: rev, Start: key + "\x00", Left: left})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseToken decodes a continue token; Start is then the key after which the next page starts. A token that is none is a 400.
func parseToken(s string) (continueToken, error) {
	bad := func(why any) (continueToken, error) {
		return continueToken{}, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: %v", why))
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return bad(err)
	}
	var p continueToken
	if err := json.Unmarshal(b, &p); err != nil {
		return bad(err)
	}
	switch {
	case p.Version != pageVersion:
		return bad("server does not recognize this encoded version " + p.Version)
	case p.Rev == 0 || p.Rev < anyRevision:
		return bad("incorrect encoded start resourceVersion (version " + pageVersion + ")")
	case p.Start == "":
		return bad("encoded start key empty (version " + pageVersion + ")")
	case path.Clean("/"+strings.TrimPrefix(p.Start, "/")) != "/"+strings.TrimPrefix(p.Start, "/"):
		return bad(p.Start)
	}
	p.Start = strings.TrimSuffix(strings.TrimPrefix(p.Start, "/"), "\x00")
	return p, nil
}

// parseRevision reads a resourceVersion; "" is 0. What the answer to a bad one is depends on who asks.
func parseRevision(v string) (int64, error) {
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(v, 10, 63)
	return int64(n), err
}

func formatRevision(rev int64) string { return strconv.FormatInt(rev, 10) }
