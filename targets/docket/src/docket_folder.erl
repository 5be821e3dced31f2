%% What a member keeps in its data folder: Mnesia's files, and beside them the mark that its place in a cluster is complete.
%%
%% Without the mark Mnesia's files are those of a founding or a joining that was broken off, and are thrown away.
-module(docket_folder).

-export([mnesia/1, mark/1, put_mark/2, empty/1]).

%% @doc Where Mnesia's files are.
-spec mnesia(docket_options:options()) -> file:filename().
mnesia(#{data := Data}) -> filename:join(Data, "mnesia").

-spec file(docket_options:options()) -> file:filename().
file(#{data := Data}) -> filename:join(Data, "members").

%% @doc The nodes of the cluster that this member has a complete place in.
-spec mark(docket_options:options()) -> {ok, [node()]} | none | {error, string()}.
mark(#{copies := ram}) ->
    none;
mark(Options) ->
    case file:consult(file(Options)) of
        {ok, [{members, Nodes}]} -> {ok, Nodes};
        {error, enoent} -> none;
        {error, Reason} when is_atom(Reason) -> {error, lists:flatten([file(Options), ": ", file:format_error(Reason)])};
        _ -> {error, lists:flatten([file(Options), ": damaged"])}
    end.

%% @doc Marks the place as complete, on the disk and not only in its cache.
-spec put_mark(Members :: [node()], docket_options:options()) -> ok | {error, string()}.
put_mark(_, #{copies := ram}) ->
    ok;
put_mark(Members, Options) ->
    Text = io_lib:format("~p.~n", [{members, Members}]),
    New = file(Options) ++ ".new",
    case written(New, Text) of
        ok -> told(New, file:rename(New, file(Options)));
        {error, Reason} -> told(New, {error, Reason})
    end.

-spec written(file:filename(), iodata()) -> ok | {error, file:posix() | badarg | terminated | system_limit}.
written(Name, Text) ->
    case file:open(Name, [write, raw]) of
        {ok, File} ->
            Written = case file:write(File, Text) of
                ok -> file:sync(File);
                Failed -> Failed
            end,
            Closed = file:close(File),
            case Written of
                ok -> Closed;
                _ -> Written
            end;
        Failed ->
            Failed
    end.

%% @doc An empty folder for Mnesia, whatever there was.
-spec empty(docket_options:options()) -> ok | {error, string()}.
empty(#{copies := ram}) ->
    ok;
empty(Options) ->
    Folder = mnesia(Options),
    case file:del_dir_r(Folder) of
        {error, Reason} when Reason =/= enoent -> told(Folder, {error, Reason});
        _ -> told(Folder, filelib:ensure_path(Folder))
    end.

-spec told(file:filename(), ok | {error, term()}) -> ok | {error, string()}.
told(_, ok) -> ok;
told(Name, {error, Reason}) -> {error, lists:flatten(io_lib:format("~ts: ~ts", [Name, file:format_error(Reason)]))}.
