// Package aoscx is a client of the REST API of AOS-CX switches, version v10.04 and later.
//
// It is written from public documents and client libraries. A switch allows six sessions for each user: a Client keeps one, and logs in
// again when the switch ended it. Close logs out.
package aoscx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// DefaultVersion is the version of the API that is asked for.
const DefaultVersion = "v10.04"

// maxAnswer bounds an answer: the whole configuration of a large switch has a few megabytes.
const maxAnswer = 16 << 20

// A Client speaks to one switch, one request at a time. Its methods may be called at once.
type Client struct {
	Address  string // https://core01, without a path
	Version  string // of the API; "": DefaultVersion
	User     string
	Password string
	HTTP     http.RoundTripper

	mu     sync.Mutex
	cookie string // of the session; "": there is none
	token  string // against forged requests; older releases have none
}

// An Error is a refusal of a switch.
type Error struct {
	Status int
	Text   string
}

// Error is the switch's status and text.
func (e *Error) Error() string { return fmt.Sprintf("the switch says %d %s", e.Status, e.Text) }

// NotFound says that a resource is not there.
func NotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// Get reads a resource into out. The path is below the API's version, with its names escaped: see Path.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.call(ctx, http.MethodGet, path, nil, out)
}

// Post makes a resource in a collection.
func (c *Client) Post(ctx context.Context, path string, body any) error {
	return c.call(ctx, http.MethodPost, path, body, nil)
}

// Put replaces a resource: what can be written and is left out falls back to its default. Most callers want Edit.
func (c *Client) Put(ctx context.Context, path string, body any) error {
	return c.call(ctx, http.MethodPut, path, body, nil)
}

// Edit changes some attributes of a resource and keeps the others: it reads what can be written, changes it, and writes all of it. nil
// takes an attribute away. The API has no way to notice that somebody else wrote in between.
func (c *Client) Edit(ctx context.Context, path string, change map[string]any) error {
	whole := map[string]any{}
	if err := c.Get(ctx, path, url.Values{"selector": {"writable"}, "depth": {"1"}}, &whole); err != nil {
		return err
	}
	for k, v := range change {
		merge(whole, k, v)
	}
	return c.Put(ctx, path, whole)
}

// merge sets an attribute; maps are merged key by key, for other_config and its like hold settings of others.
func merge(into map[string]any, key string, value any) {
	m, isMap := value.(map[string]any)
	old, had := into[key].(map[string]any)
	switch {
	case value == nil:
		delete(into, key)
	case isMap && had:
		for k, v := range m {
			merge(old, k, v)
		}
	default:
		into[key] = value
	}
}

// Path joins the parts of a path and escapes them: 1/1/48 is one part.
func Path(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return strings.Join(escaped, "/")
}

// call sends a request within a session.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		if c.cookie == "" {
			if err := c.login(ctx); err != nil {
				return err
			}
		}
		res, err := c.send(ctx, method, path, "application/json", data)
		if err != nil {
			return err
		}
		if res.status == http.StatusUnauthorized && try == 0 {
			c.cookie, c.token = "", "" // the session ended: of age, or with a restart
			continue
		}
		if res.status >= 300 {
			return &Error{res.status, res.text()}
		}
		if out == nil || len(res.body) == 0 {
			return nil
		}
		if err := json.Unmarshal(res.body, out); err != nil {
			return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
		}
		return nil
	}
}

func (c *Client) login(ctx context.Context) error {
	form := url.Values{"username": {c.User}, "password": {c.Password}}.Encode()
	res, err := c.send(ctx, http.MethodPost, "login", "application/x-www-form-urlencoded", []byte(form))
	switch {
	case err != nil:
		return fmt.Errorf("log in: %w", err)
	case res.status == 268: // of a switch as it leaves the factory
		return errors.New("log in: the administrator has no password yet: set one on the console")
	case res.status >= 300:
		return fmt.Errorf("log in as %s: %w", c.User, &Error{res.status, res.text()})
	case res.cookie == "":
		return errors.New("log in: the switch gave no session")
	}
	c.cookie, c.token = res.cookie, res.token
	return nil
}

// Close ends the session, if there is one.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cookie == "" {
		return nil
	}
	_, err := c.send(ctx, http.MethodPost, "logout", "application/json", nil)
	c.cookie, c.token = "", ""
	return err
}

type answer struct {
	status        int
	body          []byte
	cookie, token string
}

// maxText bounds the text of an error, in bytes.
const maxText = 300

func (a *answer) text() string {
	text := strings.Join(strings.Fields(string(a.body)), " ")
	return text[:min(len(text), maxText)]
}

// send does one exchange. Redirects are not followed: the password would go along.
func (c *Client) send(ctx context.Context, method, path, typ string, body []byte) (*answer, error) {
	version := c.Version
	if version == "" {
		version = DefaultVersion
	}
	at := strings.TrimSuffix(c.Address, "/") + "/rest/" + version + "/" + path
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", typ)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Use-Csrf-Token", "true")
	if c.cookie != "" {
		req.Header.Set("Cookie", c.cookie)
		req.Header.Set("X-Csrf-Token", c.token)
	}
	res, err := c.HTTP.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	a := &answer{status: res.StatusCode, token: res.Header.Get("X-Csrf-Token")}
	for _, k := range res.Cookies() {
		a.cookie = k.Name + "=" + k.Value
	}
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return nil, err
	}
	return a, nil
}
