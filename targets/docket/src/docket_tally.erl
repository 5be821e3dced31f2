%% What is counted, and the one bound that is held: requests in flight.
%%
%% Atomics and nothing else: whether a request is let in is decided by its own process, at once, whatever queues there are.
-module(docket_tally).

-export([new/0, enter/1, leave/0, add/1, get/1]).
-export_type([name/0]).

-type name() :: in_flight | refused | inconsistent | overloaded.

%% @doc Makes the counters, all 0.
-spec new() -> ok.
new() ->
    persistent_term:put(?MODULE, atomics:new(4, [{signed, true}])).

%% @doc One more request, unless there are as many as the bound; 0 is no bound. Who was let in must leave.
-spec enter(non_neg_integer()) -> ok | refused.
enter(Bound) ->
    Counters = persistent_term:get(?MODULE),
    case atomics:add_get(Counters, place(in_flight), 1) of
        InFlight when Bound > 0, InFlight > Bound ->
            atomics:sub(Counters, place(in_flight), 1),
            atomics:add(Counters, place(refused), 1),
            refused;
        _ ->
            ok
    end.

%% @doc One request less.
-spec leave() -> ok.
leave() ->
    atomics:sub(persistent_term:get(?MODULE), place(in_flight), 1).

%% @doc Counts one.
-spec add(name()) -> ok.
add(Name) ->
    atomics:add(persistent_term:get(?MODULE), place(Name), 1).

%% @doc How many there are.
-spec get(name()) -> integer().
get(Name) ->
    atomics:get(persistent_term:get(?MODULE), place(Name)).

-spec place(name()) -> pos_integer().
place(in_flight) -> 1;
place(refused) -> 2;
place(inconsistent) -> 3;
place(overloaded) -> 4.
