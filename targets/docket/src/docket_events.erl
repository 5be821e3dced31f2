%% Mnesia's own events, in its words and in one line each.
%%
%% Put in the place of Mnesia's own handler (`event_module'), so that nothing is missed from its start on and nothing is said
%% twice. Nothing but a fatal event, after which Mnesia kills itself, ends the member: Mnesia goes on after a split brain.
-module(docket_events).
-behaviour(gen_event).

-export([init/1, handle_event/2, handle_call/2, handle_info/2]).

%% When each kind of overload was last told, in milliseconds: a Mnesia that is overloaded says so very often.
-type state() :: #{term() => integer()}.

-define(QUIET_MS, 1000).

%% @private
-spec init(term()) -> {ok, state()}.
init(_) -> {ok, #{}}.

%% @private
-spec handle_event(term(), state()) -> {ok, state()}.
handle_event({mnesia_system_event, Event}, State) -> {ok, hear(Event, State)};
handle_event(_, State) -> {ok, State}.

%% @private
-spec handle_call(term(), state()) -> {ok, ok, state()}.
handle_call(_, State) -> {ok, ok, State}.

%% @private
-spec handle_info(term(), state()) -> {ok, state()}.
handle_info(_, State) -> {ok, State}.

-spec hear(term(), state()) -> state().
hear({inconsistent_database, Context, Node}, State) ->
    docket_tally:add(inconsistent),
    docket_log:say("inconsistent_database ~ts ~ts: both went on without the other, their cases may differ; this member goes on with its own",
                   [Context, Node]),
    State;
hear({mnesia_overload, Details}, State) ->
    docket_tally:add(overloaded),
    Kind = case is_tuple(Details) of true -> element(1, Details); false -> Details end,
    Now = erlang:monotonic_time(millisecond),
    case State of
        #{Kind := Last} when Now - Last < ?QUIET_MS ->
            State;
        _ ->
            docket_log:say("Mnesia is overloaded: ~0tp", [Details]),
            State#{Kind => Now}
    end;
hear({mnesia_up, Node}, State) ->
    docket_log:say("~ts is up", [Node]),
    State;
hear({mnesia_down, Node}, State) ->
    docket_log:say("~ts is down", [Node]),
    State;
hear({mnesia_fatal, Format, Arguments, _Core}, _State) ->
    fatal(lists:flatten(io_lib:format(Format, Arguments)));
hear({mnesia_error, Format, Arguments}, State) ->
    docket_log:say("Mnesia: error: " ++ Format, Arguments),
    State;
hear({mnesia_warning, Format, Arguments}, State) ->
    docket_log:say("Mnesia: warning: " ++ Format, Arguments),
    State;
hear(_, State) ->
    State.

%% Two schemas that were made apart will never fit: that is a mistake in what was started, as a wrong option is.
-spec fatal(string()) -> no_return().
fatal(Text) ->
    case lists:prefix("Failed to merge schema", Text) of
        true ->
            docket_log:give_up(2, "join the others: their schema is not the one in its data folder: ~ts; empty the data folder "
                                  "of the member that is to give up its cases", [shortened(Text)]);
        false ->
            docket_log:give_up(1, "go on: Mnesia gave up: ~ts", [shortened(Text)])
    end.

-spec shortened(string()) -> string().
shortened(Text) -> string:slice(Text, 0, 400).
