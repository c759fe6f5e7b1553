package cudalibs

import "testing"

func TestParse(t *testing.T) {
	table, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(len(table.Functions))
}
