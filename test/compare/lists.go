package main

import (
	"net/url"
	"strings"
)

// options are queries of a list, one a word; NAME stands for the name of the object.
const options = `
	limit=1 limit=0 limit=-1 limit=x continue=x limit=1&continue=x resourceVersion=0 resourceVersion=1
	resourceVersion=x resourceVersion=-1 resourceVersion=99999999
	resourceVersion=0&resourceVersionMatch=Exact resourceVersion=0&resourceVersionMatch=NotOlderThan
	resourceVersion=1&resourceVersionMatch=NotOlderThan resourceVersion=1&resourceVersionMatch=x
	resourceVersionMatch=Exact resourceVersionMatch=NotOlderThan resourceVersion=1&continue=x
	resourceVersion=1&resourceVersionMatch=Exact&continue=x
	resourceVersion=99999999&resourceVersionMatch=Exact timeoutSeconds=x timeoutSeconds=-1 timeoutSeconds=0
	pretty=x watch=x watch=false allowWatchBookmarks=x sendInitialEvents=true sendInitialEvents=x
	watch=true&sendInitialEvents=true watch=true&resourceVersionMatch=NotOlderThan
	watch=true&resourceVersionMatch=Exact&sendInitialEvents=true watch=true&limit=-1
	watch=true&resourceVersion=x labelSelector=a%3Db labelSelector=a+in+(b,c),!d labelSelector=a+in
	labelSelector=a%3D%3D%3Db labelSelector=Bad_word!%3Dx labelSelector=a%3DBad_word! labelSelector=a>1
	labelSelector=a>x labelSelector=%2C labelSelector=a+notin+() fieldSelector=metadata.name%3DNAME
	fieldSelector=metadata.name!%3DNAME fieldSelector=metadata.name%3D%3DNAME,metadata.name!%3Dx
	fieldSelector=metadata.name fieldSelector=%3D fieldSelector=metadata.name%3Da%5C%2Cb
	fieldSelector=metadata.name%3Da%5Cb bogus=1 shardSelector=x dryRun=All fieldManager=x`

const getOptions = `
	resourceVersion=0 resourceVersion=1 resourceVersion=x resourceVersion=99999999 pretty=true export=true
	fieldSelector=a%3Db resourceVersionMatch=Exact`

const sweepOptions = `
	fieldSelector=metadata.name%3DNAME fieldSelector=bogus%3Dx labelSelector=a+in limit=-1 resourceVersion=x
	propagationPolicy=x gracePeriodSeconds=x gracePeriodSeconds=-1
	orphanDependents=true&propagationPolicy=Orphan resourceVersionMatch=Exact`

// accepted are types that an answer may be asked for in.
const accepted = `
	application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1
	application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v2
	application/json;as=Table;v=v1beta1;g=meta.k8s.io application/json;as=Table;v=v2;g=meta.k8s.io
	application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1 application/json;as=x application/x
	application/json;stream=watch application/json;pretty=1 application/x,application/json */* text/html`

// lists ask for an object and its collection with every option and in every form.
func lists(s stored) []trial {
	collection := s.path[:strings.LastIndexByte(s.path, '/')]
	name := url.QueryEscape(word(s.a, "metadata", "name"))
	only := "fieldSelector=metadata.name%3D" + name
	var trials []trial
	add := func(verb, method, path, q, more string) {
		t := trial{kind: s.place.gvk.Kind, verb: verb, field: q, what: "option", method: method}
		if q = strings.ReplaceAll(q, "NAME", name); more != "" && !strings.Contains(q, "fieldSelector") {
			q += "&" + more
		}
		t.path = path + "?" + q
		trials = append(trials, t)
	}
	for _, q := range strings.Fields(options) {
		more := ""
		if !s.place.namespaced { // others have objects there, too
			more = only
		}
		if strings.HasPrefix(q, "watch=") {
			q += "&timeoutSeconds=1"
		}
		add("list", "GET", collection, q, more)
	}
	for _, q := range strings.Fields(getOptions) {
		add("get", "GET", s.path, q, "")
	}
	if s.place.can("deletecollection") {
		for _, q := range strings.Fields(sweepOptions) {
			add("delete collection", "DELETE", collection, q+"&dryRun=All", only)
		}
	}
	for _, accept := range strings.Fields(accepted) {
		for _, path := range []string{s.path, collection + "?" + only} {
			t := trial{kind: s.place.gvk.Kind, verb: "accept", field: accept, what: "type", method: "GET", path: path, accept: accept}
			trials = append(trials, t)
		}
	}
	return trials
}
