// Package torture kills servers, cuts their power, and feeds them what nobody should. The tests of a normal run are short; flags make
// them long:
//
//	go test ./test/torture -run Kill -kills 200
//	go test ./test/torture -run PowerCut -cuts 300
//	go test ./test/torture -run Malformed -requests 100000
//	go test ./test/torture -run Cost -costs 100000 -timeout 2h
//	go test ./test/torture -run XXX -fuzz FuzzPatch -fuzztime 5m
package torture
