package rest

import (
	"cmp"
	"context"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

type kindsAnswer struct {
	Kinds []kindAnswer `json:"kinds"`
}

// kindAnswer has the fields of an [activity.Kind], in the words of the API.
type kindAnswer struct {
	Name          string   `json:"name"`
	Plural        string   `json:"plural"`
	Target        string   `json:"target"`
	Effect        string   `json:"effect"`
	Text          bool     `json:"text,omitzero"`   // the target's facet is found in texts
	Fold          string   `json:"fold,omitzero"`   // of the target's facet
	Rollup        string   `json:"rollup,omitzero"` // of the target's facet
	Roles         []string `json:"roles,omitzero"`  // nil: all
	Over          []string `json:"over,omitzero"`
	Fanout        bool     `json:"fanout,omitzero"`
	TwoWay        bool     `json:"two_way"`
	Ledger        bool     `json:"ledger"`
	WindowSeconds int64    `json:"window_seconds,omitzero"`
	Parts         int      `json:"parts,omitzero"` // of the window
	Most          int      `json:"most,omitzero"`  // keys in the window; 0: not configured
	Limit         *uint32  `json:"limit"`          // null: no limit
}

// listKinds answers with all kinds of activities.
func (a *api) listKinds(context.Context, *wire.Call) (any, error) {
	var answer kindsAnswer
	for _, k := range a.kinds.All() {
		one := kindAnswer{
			Name:          k.Name,
			Plural:        k.Plural,
			Target:        string(k.Target),
			Effect:        k.Effect.String(),
			Text:          k.InText(),
			Fold:          string(k.Fold),
			Rollup:        string(k.Rollup),
			Roles:         k.Roles,
			Over:          k.Over,
			Fanout:        k.Fanout,
			TwoWay:        k.Reverse != "",
			Ledger:        k.InLedger(),
			WindowSeconds: int64(k.Window.Seconds()),
		}
		if k.InText() {
			one.Fold = ""
		}
		if !k.InLedger() {
			one.Parts, one.Most = cmp.Or(k.Parts, activity.DefaultParts), k.Most
		}
		if k.Limit > 0 {
			one.Limit = &k.Limit
		}
		answer.Kinds = append(answer.Kinds, one)
	}
	return answer, nil
}
