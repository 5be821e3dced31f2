%% Says which case of a suite failed and why, on the terminal: Common Test keeps that to its pages.
-module(docket_told).
-export([init/2, on_tc_fail/4]).

init(_, _) -> {ok, none}.

on_tc_fail(_, Case, Reason, State) ->
    io:format(user, "  FAIL ~p: ~p~n", [Case, Reason]),
    State.
