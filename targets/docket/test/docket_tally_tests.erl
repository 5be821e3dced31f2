%% The bound on requests in flight.
-module(docket_tally_tests).
-include_lib("eunit/include/eunit.hrl").

bound_test() ->
    docket_tally:new(),
    ?assertEqual([ok, ok, refused, refused], [docket_tally:enter(2) || _ <- "1234"]),
    ?assertEqual({2, 2}, {docket_tally:get(in_flight), docket_tally:get(refused)}),
    docket_tally:leave(),
    ?assertEqual([ok, refused], [docket_tally:enter(2) || _ <- "12"]).

off_test() ->
    docket_tally:new(),
    ?assertEqual([ok, ok, ok], [docket_tally:enter(0) || _ <- "123"]),
    ?assertEqual({3, 0}, {docket_tally:get(in_flight), docket_tally:get(refused)}).

%% However many ask at once, never more than the bound are in.
at_once_test() ->
    docket_tally:new(),
    Self = self(),
    Asking = [spawn_link(fun() -> Self ! {self(), docket_tally:enter(7)} end) || _ <- lists:seq(1, 200)],
    %% From these alone: a test before this one may have left messages behind.
    In = [ok || Asker <- Asking, receive {Asker, Answer} -> Answer =:= ok end],
    ?assertEqual({7, 7}, {length(In), docket_tally:get(in_flight)}).
